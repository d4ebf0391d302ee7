"""Figures for papers: sizes, fonts, PDF with text, wrapped titles, films with their colors."""

import io
import re
import zlib

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

import metastable as ms
from metastable.core.figure import Axis, Cloud, Film, Lines, Map, Panels, Series
from metastable.report import draw, plot_angles, plot_bars, plot_clusters, plot_lines, style
from metastable.report.gif import draw_frames, encode
from metastable.report.picture import wrap
from metastable.report.styles import CATEGORIES, OTHER
from tests.report import made


def test_a_column_is_three_and_a_quarter_inches_and_letters_eight_points():
    figure = plot_clusters(made.circle())
    with style("paper"):
        picture = draw(figure)
        wide = draw(Panels([figure, figure], 2))
    (ax,) = picture.axes
    assert picture.get_size_inches().tolist() == pytest.approx([3.25, 3.25 * 3.1 / 4.6])
    assert wide.get_size_inches()[0] == 6.75
    assert ax.xaxis.label.get_fontsize() == 8 and ax.xaxis.label.get_family()[0] == "STIXGeneral"
    assert min(text.get_fontsize() for text in ax.get_legend().get_texts()) >= 6
    plain = draw(figure)  # the block is over
    assert plain.get_size_inches().tolist() == [4.6, 3.1]
    assert plain.axes[0].xaxis.label.get_family()[0] != "STIXGeneral"


def test_the_style_stays_until_it_is_taken_back():
    figure = plot_clusters(made.circle())
    try:
        ms.report.style("paper")
        assert figure.draw().get_size_inches()[0] == 3.25
        assert figure.draw(style="default").get_size_inches()[0] == 4.6
    finally:
        ms.report.style("default")
    assert figure.draw().get_size_inches()[0] == 4.6
    assert figure.draw(size="page").get_size_inches()[0] == 6.75
    with pytest.raises(ValueError, match="style must be"):
        ms.report.style("poster")


def test_axes_of_others_take_the_style():
    from matplotlib.figure import Figure

    own = Figure()
    left, right = own.subplots(1, 2)
    with style("paper"):
        assert plot_angles(made.circle()).draw(left) is own
    assert left.xaxis.label.get_family()[0] == "STIXGeneral"
    assert right.xaxis.label.get_family()[0] != "STIXGeneral"
    with pytest.raises(ValueError, match="size must be left out"):
        plot_angles(made.circle()).draw(left, size="column")


def test_text_of_a_pdf_is_text(tmp_path):
    """Letters are TrueType glyphs (Type 42) of STIX, and none is a drawing (Type 3)."""
    with style("paper"):
        path = plot_clusters(made.circle()).save(tmp_path / "new" / "a.pdf")
    raw = path.read_bytes()
    parts = [raw]
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", raw, re.S):
        try:
            parts.append(zlib.decompress(stream))
        except zlib.error:
            continue
    inside = b"\n".join(parts)
    assert b"/Type3" not in inside and b"FontFile2" in inside and b"STIXGeneral" in inside
    width = 72 * 3.25
    (box,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", inside)
    assert float(box[0]) == pytest.approx(width, abs=0.5)
    assert b"CreationDate" not in inside


def test_files_are_what_their_names_say(tmp_path):
    figure = plot_clusters(made.circle())
    assert figure.save(tmp_path / "a.svg").read_text().startswith("<svg")
    with Image.open(figure.save(tmp_path / "a.png", size=(2.0, 1.0))) as image:
        assert image.size == (400, 200)
    with pytest.raises(ValueError, match=r"\.pdf, \.svg or \.png"):
        figure.save(tmp_path / "a.jpg")


def test_every_line_has_a_color_of_its_own():
    """Twenty-four, then gray; none comes again."""
    x = np.arange(3.0)
    ax = draw(plot_lines({str(k): (x, x + k) for k in range(26)}, "x", "y", "c", lines=True)).axes[
        0
    ]
    colors = [line.get_color() for line in ax.lines]
    assert colors == [*CATEGORIES, OTHER, OTHER] and len(set(CATEGORIES)) == 24


@pytest.mark.parametrize("width", [2.0, 3.25])
def test_titles_and_labels_lie_inside_the_picture(width):
    long = "share of the tokens that end in the largest of all clusters"
    for figure in (
        Lines(Axis(long), Axis(long), [Series("", [0, 1], [0, 1])], title=long),
        Map(Axis("x"), Axis("y"), Axis("v"), np.arange(3), np.arange(3), np.eye(2), title=long),
        plot_bars(["a", "b"], {"": [1.0, 2.0]}, long, "y", "c", title=long),
        Cloud(np.eye(2), title=long),
    ):
        picture = draw(figure, size=(width, 2.6))
        FigureCanvasAgg(picture).draw()
        box, ax = picture.bbox, picture.axes[0]
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            if text.get_visible() and text.get_text() and ax.axison:
                shown = text.get_window_extent()
                assert shown.x0 >= box.x0 - 1 and shown.x1 <= box.x1 + 1, text.get_text()
                assert shown.y0 >= box.y0 - 1 and shown.y1 <= box.y1 + 1, text.get_text()


def test_formulas_are_not_broken():
    assert wrap(r"a $x_{1} + x_{2}$ b", 0.5, 10.0).split("\n")[1] == r"$x_{1} + x_{2}$"
    assert wrap("one\ntwo", 9.0, 10.0) == "one\ntwo"


def test_maps_whose_boxes_keep_their_shape_stay_inside():
    cells = np.arange(7)
    names = Axis("", places=np.arange(6) + 0.5, names=["a long word"] * 6)
    part = Map(names, names, Axis(), cells, cells, np.eye(6), title="head", bar=False, equal=True)
    picture = draw(Panels([part] * 4, 4, size=(11.6, 3.2)))
    FigureCanvasAgg(picture).draw()
    for ax in picture.axes:
        box = ax.get_tightbbox(picture.canvas.get_renderer())
        assert box.y0 >= -1 and box.y1 <= picture.bbox.y1 + 1


def test_counts_are_drawn_as_steps():
    """A cluster count changes at a moment: no line is slanted."""
    ax = draw(plot_clusters(made.circle())).axes[0]
    assert ax.lines[0].get_drawstyle() == "steps-post"
    ranks = plot_lines(
        {"rank": (np.arange(3.0), np.array([3, 2, 1]))}, "t", "rank", "c", lines=True
    )
    assert ranks.series[0].style == "steps"


def test_a_film_keeps_its_flat_colors():
    """Each frame's paper, ink and dots are those of the drawing, to the last bit."""
    clouds = [
        Cloud(np.array([[x, 0.0], [-x, 0.5]]), groups=np.array([k, k + 1]), reach=1.0)
        for k, x in ((0, 0.3), (3, 0.6), (6, 0.9))
    ]
    drawn = draw_frames(Film(clouds, size=(2.0, 2.0)))
    with Image.open(io.BytesIO(encode(drawn, 1.0))) as film:
        assert film.n_frames == 3
        for k in range(3):
            film.seek(k)
            shown, asked = np.asarray(film.convert("RGB"), int), drawn[k].astype(int)
            gap = np.abs(shown - asked).max(axis=-1)
            assert np.mean(gap == 0) > 0.97 and gap.max() <= 24
            colors, counts = np.unique(asked.reshape(-1, 3), axis=0, return_counts=True)
            for color in colors[counts > 60]:
                assert (shown[(asked == color).all(axis=-1)] == color).all()
