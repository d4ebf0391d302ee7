"""Figures as data: they survive being written and read, and are drawn as they say."""

import json

import numpy as np
import pytest

from metastable.core.figure import (
    Axis,
    Bars,
    Cloud,
    Custom,
    Film,
    Histogram,
    Lines,
    Map,
    Panels,
    Paths,
    Series,
    Strip,
    from_tree,
    time_axis,
)
from metastable.report import draw, write_film

T = np.linspace(0.0, 2.0, 12)
RNG = np.random.default_rng(0)
LINES = Lines(
    Axis("time t", clock="SA"),
    Axis("amplitude", unit="rad", scale="log"),
    [
        Series("seen", T, np.exp(T), error=0.1 * np.exp(T), style="points"),
        Series("law", T, np.exp(T), role="theory"),
        Series("blank", T, np.full(12, np.nan), role="control"),
    ],
    paths=Paths(T, np.exp(RNG.standard_normal((3, 12))), np.array([0, 1, -1])),
    levels={"one": 1.0},
    notes=[(2.0, 1.0, "end")],
    caption="Growth.",
)
CLOUD = Cloud(RNG.standard_normal((9, 2)), groups=np.arange(9) % 3, title="t = 0")
MAP = Map(Axis("β"), Axis("κ"), Axis("order"), np.arange(4.0), np.arange(3.0), np.eye(2, 3))
FIGURES = {
    "lines": LINES,
    "bars": Bars(["a", "b"], {"u": [1.0, 2.0]}, Axis("k"), Axis("share")),
    "histogram": Histogram.of({"x": RNG.standard_normal(50)}, Axis("x"), count=5),
    "map": MAP,
    "cloud": CLOUD,
    "strip": Strip([CLOUD, CLOUD], caption="Two."),
    "panels": Panels([LINES, MAP], 2),
    "film": Film([CLOUD, Cloud(RNG.standard_normal((9, 2)), title="t = 1")], seconds=1.0),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_taken_apart_and_put_together_is_the_same(name):
    figure = FIGURES[name]
    tree, arrays = figure.to_tree()
    again = from_tree(json.loads(json.dumps(tree)), arrays)
    assert type(again) is type(figure)
    assert json.dumps(again.to_json()) == json.dumps(figure.to_json())
    assert all(array.dtype.kind in "bifu" for array in arrays.values())


def test_json_has_no_word_for_what_is_not_finite():
    text = json.dumps(LINES.to_json(), allow_nan=False)
    assert json.loads(text)["series"][2]["y"] == [None] * 12


def test_a_file_names_no_code():
    custom = Custom({"a": 1}, lambda data, picture: None, caption="Own.")
    with pytest.raises(ValueError, match="custom"):
        from_tree(*custom.to_tree())


@pytest.mark.parametrize("name", FIGURES)
def test_every_shape_is_drawn_with_its_caption(name):
    picture = draw(FIGURES[name])
    picture.canvas.draw()
    assert picture.axes


def test_lines_show_their_numbers_axes_and_roles():
    picture = draw(LINES)
    (ax,) = picture.axes
    assert ax.get_xlabel() == "time t (SA clock)" and ax.get_ylabel() == "amplitude (rad)"
    assert ax.get_yscale() == "log" and picture.get_label() == "Growth."
    (law,) = [line for line in ax.lines if line.get_label() == "law"]
    assert law.get_linestyle() == "--"
    np.testing.assert_array_equal(law.get_ydata(), np.exp(T))


def test_a_figure_can_be_drawn_on_axes_of_others():
    from matplotlib.figure import Figure

    own = Figure()
    ax = own.subplots()
    assert draw(MAP, ax) is own and ax.get_xlabel() == "β"
    with pytest.raises(ValueError, match="its own axes"):
        draw(FIGURES["strip"], ax)


def test_size_and_style_are_the_callers():
    assert draw(LINES, size=(3.3, 2.0)).get_size_inches().tolist() == [3.3, 2.0]
    assert draw(LINES, style="paper").axes
    with pytest.raises(ValueError, match="'default' or 'paper'"):
        draw(LINES, style="poster")
    with pytest.raises(ValueError, match="'column', 'page'"):
        draw(LINES, size="wide")


def test_a_film_has_every_frame(tmp_path):
    from PIL import Image

    with Image.open(write_film(FIGURES["film"], tmp_path / "new" / "a.gif")) as film:
        assert film.n_frames == 2


def test_time_is_logarithmic_past_three_decades():
    assert time_axis([0.0, 1.0, 2.0], "SA").scale == "linear"
    assert time_axis([0.0, 1.0, 2000.0], "SA").scale == "log"
