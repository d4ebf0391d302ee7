"""Figures that open a page, drawn once more for narrow windows; layouts measured once."""

import dataclasses

import numpy as np
import pytest

from metastable.core.figure import Axis, Cloud, Custom, Lines, Map, Panels, Series, Strip
from metastable.report.drawing import draw
from metastable.report.figures import figures_of
from metastable.report.narrow import LEAST, WIDEST, WIDTH, narrow
from metastable.report.page import page
from metastable.report.picture import Measured, laid_out
from tests.report import made

LINES = Lines(Axis("time"), Axis("a label"), [Series("one", [0, 1], [0, 1])], size=(4.0, 3.0))


def test_panels_stand_below_each_other_and_keep_their_shape():
    row = Panels([LINES] * 3, 3, size=(6.0, 2.0))
    small = narrow(row)
    assert small is not None and small.columns == 2 and small.size == (WIDTH, 4.0)
    tall = narrow(dataclasses.replace(row, size=(12.0, 3.0)))
    assert tall is not None and tall.columns == 1 and tall.size == (WIDTH, 9.0)
    frames = narrow(Strip([LINES] * 4, size=(8.0, 2.0)))
    assert frames is not None and frames.columns == 2 and frames.size == (WIDTH, 4.0)


def test_single_figures_keep_their_shape_and_rows_of_words_their_height():
    wide = narrow(dataclasses.replace(LINES, size=(8.4, 6.0)))
    assert wide is not None and wide.size == (WIDTH, 3.0)
    flat = narrow(dataclasses.replace(LINES, size=(8.4, 2.0)))
    assert flat is not None and flat.size == (WIDTH, LEAST)
    words = Map(Axis(), Axis(), Axis(), [0, 1], [0, 1], np.zeros((1, 1)), size=(8.6, 5.0))
    assert narrow(words).size == (WIDTH, 5.0)
    assert narrow(dataclasses.replace(words, equal=True)).size == (WIDTH, 2.44)
    assert narrow(Cloud(np.zeros((1, 2)), size=(8.4, 8.4))).size == (WIDTH, WIDTH)


def test_small_figures_and_those_painted_by_hand_stay():
    assert narrow(LINES) is None and narrow(dataclasses.replace(LINES, size=None)) is None
    assert narrow(dataclasses.replace(LINES, size=(WIDEST, 3.0))) is None
    assert narrow(Custom({}, lambda data, figure: None, size=(9.0, 3.0))) is None


def test_only_the_opening_picture_is_drawn_twice(tmp_path):
    wide = Panels([LINES, LINES], 2, size=(8.0, 3.0), caption="first")
    figures = {"a": wide, "b": dataclasses.replace(wide, caption="second")}
    text = page(tmp_path / "report.html", "A page", opening="a", figures=figures).read_text()
    assert text.count("<svg") == 3 and text.count("<figcaption") == 2
    assert text.count('<div class="plot narrow"') == text.count('<div class="plot broad"') == 1
    assert text.index("plot broad") < text.index("plot narrow") < text.index("<figcaption>first")
    text = page(tmp_path / "own.html", "A page", opening="c", figures={"c": LINES}).read_text()
    assert text.count("<svg") == 1 and '<div class="plot narrow"' not in text


FIGURES = figures_of(made.circle()) | figures_of(made.sphere()) | {"lines": LINES}


@pytest.mark.parametrize("name", FIGURES)
def test_a_layout_measured_once_is_matplotlibs_own(name, monkeypatch):
    """Axes within a hundredth of the picture, and no text outside of it."""
    picture = draw(FIGURES[name])
    width, height = laid_out(picture)
    measured = [ax.get_position().extents for ax in picture.axes]
    for ax in picture.axes:
        box = ax.get_tightbbox()
        assert box is not None
        assert box.x0 > -2 and box.y0 > -2 and box.x1 < width + 2 and box.y1 < height + 2
    assert any(isinstance(ax, Measured) for ax in picture.axes)
    monkeypatch.delattr(Measured, "get_tightbbox")
    picture = draw(FIGURES[name])
    laid_out(picture)
    own = [ax.get_position().extents for ax in picture.axes]
    np.testing.assert_allclose(measured, own, atol=0.01)
