"""Pictures of experiments: what is drawn is what was given."""

from __future__ import annotations

import dataclasses

import numpy as np
from PIL import Image

from metastable.core.outcome import Outcome
from metastable.core.result import Answer
from metastable.learn.curves import Chart, Curves, Frames
from metastable.learn.spec import Classification
from metastable.report.drawing import draw
from metastable.report.figures.learning import film_frames, plot_chart, plot_frames
from metastable.report.gif import write_film
from metastable.report.pages.study import write_study
from metastable.report.studies import result_of_study

RNG = np.random.default_rng(0)
FRAMES = Frames(
    np.linspace(0, 1, 7), RNG.standard_normal((7, 10, 2)), np.arange(10) % 2, "On their way."
)
CHART = Chart(
    "β", "strength", "clusters", np.arange(4.0), np.arange(3.0), np.arange(12.0).reshape(3, 4),
    {"theory": (np.arange(4.0), np.full(4, 1.5))}, "A chart.",
)  # fmt: skip
CURVES = Curves(
    "heads H", "error", {"one": (np.array([1, 2, 4]), np.array([1.0, 0.5, 0.25]))},
    bars={"one": np.array([2.0, 0.1, 0.1])}, powers=True,
)  # fmt: skip


def test_a_strip_shows_evenly_chosen_frames_with_every_point_in_sight():
    figure = draw(plot_frames(FRAMES, count=3))
    assert [ax.get_title() for ax in figure.axes] == ["t = 0", "t = 0.5", "t = 1"]
    for ax, index in zip(figure.axes, (0, 3, 6), strict=True):
        drawn = ax.collections[0].get_offsets()
        assert np.allclose(drawn, FRAMES.places[index])
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        assert np.all((drawn > [left, low]) & (drawn < [right, high]))
        assert np.isclose(right - left, high - low)
    assert figure.get_label() == "On their way."


def test_a_gif_has_every_frame(tmp_path):
    with Image.open(write_film(film_frames(FRAMES), tmp_path / "flow.gif")) as image:
        assert image.n_frames == 7


def test_a_chart_shows_its_values_and_its_lines():
    figure = draw(plot_chart(CHART))
    ax = figure.axes[0]
    assert np.array_equal(ax.collections[0].get_array().ravel(), CHART.values.ravel())
    assert ax.get_xlabel() == "β" and [line.get_label() for line in ax.lines] == ["theory"]


def test_a_page_holds_curves_and_pictures(tmp_path):
    figures = {"c": CURVES, "f": FRAMES, "m": CHART}
    answer = Answer(Outcome("done", "."), {"a": 1.0}, figures=figures, sentence="x")
    result = dataclasses.replace(result_of_study(Classification(), answer), folder=tmp_path)
    page = write_study(result)
    assert page.read_text().count("<figcaption") == 3
    assert {p.name for p in (tmp_path / "figures").glob("*.gif")} == {"f.gif"}
