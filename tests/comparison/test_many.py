"""Many starts: ends known from theory, intervals from SciPy, runs from `flow` itself."""

import math

import numpy as np
import pytest
from scipy import stats

import metastable as ms
from metastable.measures import Gaussian
from metastable.observe import order_parameter

GAUSSIAN = Gaussian([0.0, 1.0], 0.5)
COUNT = {"clusters": lambda measure: ms.clusters(measure).count}


def uniform(tokens, dim):
    return lambda seed: ms.uniform(tokens, dim, seed=seed)


def test_two_tokens_always_become_one():
    """V = I pulls two tokens together unless they are antipodal, which has probability 0."""
    result = ms.ensemble(
        uniform(2, 2), ms.SelfAttention(1.0), 60.0, samples=20, frames=3, observe=COUNT
    )
    shares = result.facts["clusters at the end"]
    assert list(shares) == [1] and shares[1].hits == shares[1].starts == 20
    exact = stats.binomtest(20, 20).proportion_ci(method="wilson")
    assert shares[1].interval == pytest.approx((exact.low, exact.high), abs=1e-12)
    assert result.sentence == "Of 20 starts 100 % end with clusters = 1 (84 to 100 %)."
    assert result.sentence in repr(result) and result.outcome.name == "done"


def test_ends_lie_on_the_leading_axis_and_shares_sum_to_one():
    """One token under V = diag(1, 0.9): tan θ decays as e^{−0.1t}, so the start says which pole."""
    field = ms.SelfAttention(1.0, value=np.diag([1.0, 0.9]))
    side = lambda measure: "right" if measure.points[0, 0] > 0 else "left"
    result = ms.ensemble(uniform(1, 2), field, 200.0, samples=20, frames=5, observe={"side": side})
    ends = result.data["ends"].tokens.values[:, 0]
    np.testing.assert_allclose(np.abs(ends[:, 0]), 1, atol=1e-6)
    firsts = np.array([ms.uniform(1, 2, seed=s).points[0, 0] for s in range(20)])
    table = result.data["samples"].side_interval
    assert table.sel(interval="estimate").sum("side_value").values == pytest.approx(1)
    for word, hits in {"right": np.sum(firsts > 0), "left": np.sum(firsts < 0)}.items():
        exact = stats.binomtest(int(hits), 20).proportion_ci(method="wilson")
        found = table.isel(time=-1).sel(side_value=word).values
        np.testing.assert_allclose(found, [hits / 20, exact.low, exact.high], atol=1e-12)


def test_starts_moved_together_are_the_flows_one_by_one():
    """More than one compiled batch, against `flow`; tight, since both err by the tolerance."""
    field, stepper = (
        ms.SelfAttention(2.0, value=np.diag([1.0, 0.5, -0.2])),
        ms.Adaptive(1e-12, 1e-12),
    )
    observe = {"place": lambda m: m.points, "order": order_parameter}
    how = dict(stepper=stepper, frames=4)
    result = ms.ensemble(uniform(5, 3), field, 3.0, samples=18, seed=7, observe=observe, **how)
    seen = result.data["samples"]
    assert seen.place.dims == ("sample", "time", "place_0", "place_1")
    assert seen.sample.values.tolist() == list(range(7, 25))
    for seed in (7, 15, 24):
        run = ms.flow(ms.uniform(5, 3, seed=seed), field, 3.0, **how)
        np.testing.assert_allclose(seen.place.sel(sample=seed), run.points, atol=1e-9)
        np.testing.assert_allclose(seen.time, run.times, rtol=0)
    np.testing.assert_allclose(result.data["ends"].tokens, seen.place.isel(time=-1), rtol=0)
    for t in range(4):  # Student's interval, from SciPy
        exact = stats.ttest_1samp(seen.order[:, t], 0.0).confidence_interval(0.95)
        bounds = seen.order_interval[:, t].values
        np.testing.assert_allclose(bounds, [seen.order[:, t].mean(), *exact], rtol=1e-12)


def test_starts_that_cannot_move_together_move_alone():
    """Sizes that differ, noise (whose seed is the start's), and runs with frames of their own."""
    sizes = ms.ensemble(
        lambda seed: ms.uniform(3 + seed, 2, seed=seed), ms.SelfAttention(1.0), 40.0, samples=2,
        frames=2, observe={"size": lambda m: m.count} | COUNT,
    )  # fmt: skip
    assert sizes.data["samples"]["size"].values.tolist() == [[3, 3], [4, 4]]
    assert list(sizes.facts["clusters at the end"]) == [1]
    field = ms.SelfAttention(1.0) + ms.Noise(10.0)
    noisy = ms.ensemble(uniform(3, 3), field, 0.5, samples=2, frames=2, observe=lambda m: m.points)
    alone = ms.flow(ms.uniform(3, 3, seed=1), field, 0.5, seed=1, frames=2)
    np.testing.assert_array_equal(noisy.data["samples"].value[1], alone.points)
    events = ms.ensemble(
        uniform(6, 2), ms.SelfAttention(4.0), math.inf, samples=3, stepper=ms.Hardmax(),
        observe={"left": lambda m: m.count},
    )  # fmt: skip
    assert events.data["samples"].left.dims == ("sample",)
    assert events.data["samples"].left.values.tolist() == [1, 1, 1]


def test_a_start_that_blows_up_counts_for_no_share():
    """A Gaussian of variance s under V = I is infinite at t = 1/(2βs) (arXiv:2501.18322)."""
    start = lambda seed: Gaussian([0.0, 1.0], 0.5 + seed)  # infinite at 1, 1/3, 1/5
    result = ms.ensemble(
        start, ms.SelfAttention(1.0), 0.5, samples=3, frames=2, observe=lambda m: m.dim
    )
    share = result.facts["value at the end"][2]
    assert (share.hits, share.starts) == (1, 3)
    assert result.outcome.name == "blow_up"
    assert "2 of 3 starts did not reach the horizon; seed 1: " in result.outcome.message
    with pytest.raises(ValueError, match=r"no start reaches the horizon; seed 1: .*infinite"):
        ms.ensemble(start, ms.SelfAttention(1.0), 0.5, samples=2, seed=1, observe=lambda m: m.dim)


def test_an_observable_of_the_whole_run_is_asked_once_of_each():
    """Its mean is over the starts that have a value; interval by SciPy over those."""

    def first_right(run):
        """The first token's place, where it begins on the right."""
        x = float(run.frames[0].points[0, 0])
        return x if x > 0 and run.times[-1] == 3.0 else math.nan

    field, start = ms.SelfAttention(1.0), uniform(2, 2)
    observe = {"length": lambda run: len(run.times), "place": first_right}
    result = ms.ensemble(start, field, 3.0, samples=20, frames=4, observe=observe)
    data = result.data["samples"]
    assert data.length.dims == data.place.dims == ("sample",) and set(data.length.values) == {4}
    firsts = np.array([start(seed).points[0, 0] for seed in range(20)])
    right = firsts[firsts > 0]
    exact = stats.ttest_1samp(right, 0.0).confidence_interval(0.95)
    fact = result.facts["place"]
    assert fact["without a value"] == 20 - right.size > 0
    found = fact["mean"], fact["low"], fact["high"]
    np.testing.assert_allclose(found, [right.mean(), *exact], rtol=1e-12)
    assert "have length = 4" in result.sentence and "without a value left out" in result.sentence
    assert data.place.attrs["about"] == "The first token's place, where it begins on the right"


def test_of_many_values_the_most_frequent_are_told_and_the_rest_together():
    """Sizes 2 to 13 by seed: of 30 starts 2 to 7 come three times, 8 to 13 twice."""
    result = ms.ensemble(
        lambda seed: ms.uniform(2 + seed % 12, 2, seed=seed), ms.SelfAttention(1.0), 0.1,
        samples=30, frames=2, observe={"size": lambda m: m.count},
    )  # fmt: skip
    shares = result.facts["size at the end"]
    assert list(shares) == [2, 3, 4, 5, 6, 7, 8, "5 other values"]
    assert [share.hits for share in shares.values()] == [3, 3, 3, 3, 3, 3, 2, 10]
    lines = repr(result).splitlines()
    assert sum("of 30 starts" in line for line in lines[1:]) == 8
    assert "5 other values  33.3% of 30 starts" in repr(result)
    assert "70 % with other values" in result.sentence


def test_ctrl_c_keeps_what_is_finished():
    asked = []

    def observe(measure):
        asked.append(measure)
        if len(asked) > 6:
            raise KeyboardInterrupt
        return 1

    start, field = uniform(3, 2), ms.SelfAttention(1.0)
    result = ms.ensemble(start, field, 1.0, samples=9, frames=2, observe=observe)
    assert result.outcome.name == "interrupted" and "3 of 9 starts" in result.outcome.message
    assert result.facts["observe at the end"][1].starts == 3  # by the name of the function


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"samples": 0}, r"samples must be an integer >= 1; got 0"),
        ({"start": ms.uniform(3, 2)}, r"start must be a function of a seed: .*; got Points"),
        ({"start": lambda seed: None}, r"start\(0\) must be a measure; got None"),
        ({"start": lambda s: ms.polygon(3) if s < 5 else GAUSSIAN}, r"one kind .* for seed 5"),
        ({"observe": 3}, r"observe\['value'\] must be a function of a measure or .*; got 3"),
        ({"observe": "lifetime"}, r"names are for sweeps\); got 'lifetime'"),
        ({"observe": {"a/b": len}}, r"observe must have words as names, without a /; got 'a/b'"),
        ({"observe": None}, r"observe or claims must be given; got neither"),
        ({"observe": {"x": lambda run: run.times[7]}}, r"; asked of the whole run, IndexError: "),
        ({"observe": {"x": lambda m: m.tokens}}, r"t = 0 of seed 0 it raised AttributeError"),
        ({"claims": COUNT["clusters"]}, r"claims must be a list of functions of a case"),
        ({"claims": [3]}, r"claims\[0\] must be a function of a case; got 3"),
        ({"claims": [lambda case: True]}, r"must give a row, rows or None; got bool: return what"),
        ({"claims": [lambda case: 1 / 0]}, r"the claim '<lambda>' .* of seed 0 it raised ZeroDiv"),
        ({"observe": {"x": lambda m: 1 / 0}}, r"observe\['x'\] .* t = 0 of seed 0 it raised Zero"),
        ({"observe": ms.clusters}, r"must give a number, a word or an array .*; got Clusters"),
        ({"observe": lambda m: np.ones(1 + (m.points[0, 0] > 0))}, r"one shape; got .*1,.*2,"),
        ({"horizon": math.inf}, r"horizon must be a finite number > 0; got inf"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_line(wrong, message):
    right = dict(start=uniform(3, 2), field=ms.SelfAttention(1.0), horizon=1.0, samples=9, frames=2)
    with pytest.raises(ValueError, match=message) as refused:
        ms.ensemble(**(right | {"observe": lambda m: m.count} | wrong))
    assert "\n" not in str(refused.value)
