"""Ensembles show themselves: a bar for each value, a folder like every other, a page."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import metastable as ms
from metastable.core.figure import Bars, Histogram, Lines
from metastable.core.verdict import decide
from metastable.measures import Gaussian
from metastable.report import figures_of
from metastable.report.figures.ensemble import MOST_BARS, plot_ends
from metastable.report.picture import screen_size
from tests.fuzz.damages import call


def size(measure):
    """How many tokens there are."""
    return measure.count


def height(measure):
    return float(measure.points[:, 1].mean())


def few(case):
    return decide(case.tokens < 9, "fewer than nine tokens", "the starts", "< 9", case.tokens, "")


def made(frames=4, **more):
    """Sizes 2, 3, 6 by seed: four, four and three of eleven."""
    start = lambda seed: ms.uniform((2, 3, 6)[seed % 3], 2, seed=seed)
    observe = {"size": size, "height": height, "side": lambda m: "up" if height(m) > 0 else "down"}
    how = {"samples": 11, "observe": observe, "claims": [few], "frames": frames} | more
    return ms.ensemble(start, ms.SelfAttention(1.0), 1.0, **how)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return made().save(tmp_path_factory.mktemp("ensemble") / "out")


def test_whole_numbers_have_a_bar_each_also_those_that_nobody_saw():
    figure = plot_ends(made(2), "size")
    assert isinstance(figure, Bars) and list(figure.places) == ["2", "3", "4", "5", "6"]
    np.testing.assert_allclose(figure.heights[""], [4 / 11, 4 / 11, 0, 0, 3 / 11])
    for k, hits in {0: 4, 4: 3}.items():
        exact = stats.binomtest(hits, 11).proportion_ci(method="wilson")
        low, high = np.asarray(figure.errors[""])[:, k]
        np.testing.assert_allclose([hits / 11 - low, hits / 11 + high], [exact.low, exact.high])
    assert figure.x.text == "How many tokens there are"
    assert figure.title == "11 starts at t = 1 (SA clock)"
    assert "(size) of 11 independent starts at t = 1 (SA clock)" in figure.caption
    assert screen_size(figure.draw())["width"] >= 500


def test_other_numbers_have_a_histogram_of_all_starts():
    result = made(2)
    figure = plot_ends(result, "height")
    assert isinstance(figure, Histogram) and figure.x.text == "height"
    edges, counts = figure.bins[""]
    seen = result.data["samples"].height[:, -1].values
    assert counts.sum() == 11 and edges[0] == seen.min() and edges[-1] == seen.max()
    exact = stats.ttest_1samp(seen, 0.0).confidence_interval(0.95)
    assert figure.note == f"mean {seen.mean():.4g} ({exact.low:.4g} to {exact.high:.4g})"


def test_many_whole_numbers_share_bars_of_one_width():
    start = lambda seed: ms.uniform(2 + 3 * seed, 2, seed=seed)
    result = ms.ensemble(
        start, ms.SelfAttention(1.0), 0.1, samples=20, frames=2, observe={"size": size}
    )
    figure = plot_ends(result, "size")
    edges, counts = figure.bins[""]
    assert len(counts) <= MOST_BARS and counts.sum() == 20
    assert set(np.diff(edges)) == {3.0} and edges[0] == 1.5


def test_starts_that_end_early_have_a_bar_of_their_own():
    """A Gaussian of variance s under V = I is infinite at t = 1/(2βs) (arXiv:2501.18322)."""
    start = lambda seed: Gaussian([0.0, 1.0], 0.5 + seed)
    result = ms.ensemble(
        start, ms.SelfAttention(1.0), 0.5, samples=3, frames=2, observe={"d": lambda m: m.dim}
    )
    figure = plot_ends(result, "d")
    assert list(figure.places) == ["2", "no end"]
    np.testing.assert_allclose(figure.heights[""], [1 / 3, 2 / 3])
    assert "did not reach the horizon" in figure.caption


def test_runs_with_times_of_their_own_have_bars():
    """Softmax with V = I on the circle ends in one cluster, and the staircase goes that far."""
    start, field = lambda seed: ms.uniform(6, 2, seed=seed), ms.SelfAttention(4.0)
    how = {"stepper": ms.Hardmax(), "observe": {"left": size}}
    result = ms.ensemble(start, field, math.inf, samples=3, **how)
    (figure,) = figures_of(result).values()
    assert list(figure.places) == ["1"] and "at the end of each run" in figure.title
    assert result._repr_html_().count("<img") == 1


def test_figures_by_name_and_over_time():
    figures = figures_of(made())
    assert list(figures) == ["size", "height", "side", "size_over_time", "height_over_time",
                             "side_over_time"]  # fmt: skip
    assert all(isinstance(figures[f"{name}_over_time"], Lines) for name in ("size", "height"))
    assert list(figures_of(made(2))) == ["size", "height", "side"]


def test_a_folder_like_every_other(kept):
    names = {path.name for path in kept.folder.iterdir()}
    assert names >= {"spec.toml", "manifest.json", "verdicts.json", "data.zarr", "figures",
                     "report.html"}  # fmt: skip
    again = ms.open(kept.folder)
    assert again.sentence == kept.sentence and again.verdicts == kept.verdicts
    assert again.kind == "ensemble" and again.spec == kept.spec and again.spec.samples == 11
    assert "def few(case)" in again.spec.claims[0]
    for name in ("size", "height", "side"):
        np.testing.assert_array_equal(
            again.data["samples"][name].values.astype(object),
            kept.data["samples"][name].values.astype(object),
        )
    assert list(figures_of(again)) == list(figures_of(kept))
    for name, figure in figures_of(again).items():
        assert figure.to_json() == figures_of(kept)[name].to_json()
    json.dumps(again.to_dict(), allow_nan=False)
    with pytest.raises(ValueError, match="kept already"):
        again.save(kept.folder.parent / "other")
    with pytest.raises(ValueError, match="already holds this ensemble"):
        made().save(kept.folder)


def test_its_page_opens_with_the_answer_and_is_made_again(kept):
    page = kept.folder / "report.html"
    text = page.read_text("utf-8")
    assert kept.sentence in text and "fewer than nine tokens" in text
    assert text.index(kept.sentence) < text.index('aria-label="How many tokens there are')
    page.unlink()
    assert call("report", kept.folder).code == 0
    assert "aria-label=" in page.read_text("utf-8")
    answer = call("compare", kept.folder, "--json")
    assert answer.code == 0 and json.loads(answer.out)["agree"] == 1
    answer = call("run", kept.folder / "spec.toml")
    assert answer.code == 2 and "call ms.ensemble in Python" in answer.err


def test_a_notebook_shows_the_rows_at_once():
    text = made()._repr_html_()
    assert text.count("<img") == 1 and 'alt="How many tokens there are' in text
    assert "<details open>" in text and "11 of 11 runs" in text


def test_a_flow_in_memory_is_compared_when_it_is_kept(tmp_path):
    from metastable.flows.spec import Experiment

    spec = Experiment.from_tree(
        {"measure": {"tokens": 4}, "flow": {"horizon": 0.5, "frames": 3}, "field": {"beta": 2.0}}
    )
    result = ms.run(spec)
    kept, direct = result.save(tmp_path / "a"), ms.run(spec, tmp_path / "b")
    assert [row.claim for row in kept.verdicts.rows] == [row.claim for row in direct.verdicts.rows]
    assert kept.sentence == direct.sentence and (kept.folder / "report.html").is_file()
