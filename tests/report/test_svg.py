import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest

from metastable.report import plot_angles, plot_strip, save_figure
from metastable.report.styles import INK
from metastable.report.svg import inline_svg
from tests.report import made


@pytest.fixture(scope="module")
def text():
    return inline_svg(plot_angles(made.circle()), "f1")


def test_is_well_formed_and_asks_nothing_of_a_network(text):
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.findall(r'(?:href|src)="(?!#|data:)', text)
    assert re.findall("https?://[^\"' ]*", text) == ["http://www.w3.org/2000/svg"]
    assert "<style" not in text and "<script" not in text


def test_identifiers_are_its_own_and_complete(text):
    ids = re.findall(r'\bid="([^"]+)"', text)
    used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert len(ids) == len(set(ids)) and used == set(ids)
    assert all(name.startswith("f1-") for name in ids)


def test_axes_take_the_colour_of_the_page_and_data_are_images(text):
    assert "currentColor" in text and INK not in text
    assert text.count("<image") == 1 and len(text) < 300_000


def test_drawing_twice_gives_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        save_figure(plot_strip(made.sphere()), tmp_path / folder, "strip")
    for name in ("strip.svg", "strip.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_file_follows_the_theme(tmp_path):
    vector, raster = save_figure(plot_angles(made.circle()), tmp_path / "new", "angles")
    root = ET.parse(vector).getroot()
    assert "prefers-color-scheme:dark" in root[0].text
    assert raster.read_bytes().startswith(b"\x89PNG")
    # A folder may be given by its name.
    again, _ = save_figure(plot_angles(made.circle()), str(tmp_path / "named"), "angles")
    assert again.read_bytes() == vector.read_bytes()


def test_caption_is_escaped():
    figure = dataclasses.replace(plot_angles(made.circle()), caption='<script>"&')
    root = ET.fromstring(inline_svg(figure, "f1"))
    assert root.attrib["aria-label"] == '<script>"&'
