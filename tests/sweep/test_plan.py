"""Plans: stable seeds, lazy cells, frames as the flow keeps them, costs before the start."""

import tracemalloc
from itertools import islice, pairwise

import numpy as np
import pytest

from metastable.flows.build import run_experiment
from metastable.sweep.estimate import estimate
from metastable.sweep.plan import plan_sweep
from metastable.sweep.spec import Sweep, experiment_with, extended
from tests.sweep.stores import small


def seeds(plan):
    cells = (plan.cell(index) for index in plan.indices())
    return {(*sorted(c.overrides.items()), c.index[-1]): c.seed for c in cells}


def test_seeds_follow_values_not_places():
    first, second = small(), small(count=9, repetitions=3)
    before, after = seeds(plan_sweep(first)), seeds(plan_sweep(extended(first, second)))
    assert before.items() <= after.items() and len(after) == 54
    assert len(set(after.values())) == 54
    assert seeds(plan_sweep(second)) == after


def test_same_starts_share_a_seed_within_a_repetition():
    plan = plan_sweep(small(same_starts=True))
    by_repetition = {}
    for index in plan.indices():
        by_repetition.setdefault(index[-1], set()).add(plan.cell(index).seed)
    assert [len(found) for found in by_repetition.values()] == [1, 1]
    assert by_repetition[0] != by_repetition[1]


def test_cells_of_one_compiled_shape_follow_each_other():
    plan = plan_sweep(small())
    groups = [plan.group(index) for index in plan.indices()]
    changes = sum(a != b for a, b in pairwise(groups))
    assert changes == 1 and plan.group_count == 2  # two numbers of tokens
    assert sorted(plan.indices()) == list(np.ndindex(plan.shape))


def test_a_million_cells_are_planned_in_little_memory():
    axes = {
        "field.beta": {"from": 1.0, "to": 9.0, "count": 1000},
        "measure.tokens": {"from": 1, "to": 1000, "count": 1000},
    }
    sweep = Sweep.model_validate({"observables": ["order"], "axes": axes})
    tracemalloc.start()
    plan = plan_sweep(sweep)
    assert plan.size == 10**6 and estimate(plan).cells == 10**6
    for index in islice(plan.indices(), 5_000):
        plan.cell(index)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6, peak


@pytest.mark.parametrize(
    "flow",
    [
        {"horizon": 2.0, "frames": 5},
        {"horizon": 3.0, "frames": 3, "stepper": {"kind": "layers", "step": 0.25}},
        {"horizon": 2.0, "frames": 50, "stepper": {"kind": "layers", "step": 0.5}},
    ],
)
def test_planned_times_are_those_of_the_run(flow):
    sweep = small(base={"flow": flow})
    plan = plan_sweep(sweep)
    run = run_experiment(experiment_with(sweep.base, plan.cell((0, 0, 0)).overrides))
    np.testing.assert_array_equal(plan.times, run.times)


def test_what_cannot_be_is_refused_before_the_start():
    with pytest.raises(ValueError, match="observables must be among"):
        plan_sweep(small(observables=["ordre"]))
    with pytest.raises(ValueError, match="beta"):
        plan_sweep(small(axes={"field.beta": [1.0, -1.0]}))
    with pytest.raises(ValueError, match="same frames in every cell"):
        plan_sweep(small(axes={"flow.horizon": [1.0, 2.0]}))
    told = str(estimate(plan_sweep(small())))
    assert "20 cells of 2 compiled shapes" in told and "memory" in told and "disk" in told


def test_the_estimate_counts_what_is_compiled_and_the_start_of_workers():
    # 400 tokens on the circle take a fast sum, whose degree grows with β: each is compiled anew.
    base = {"measure": {"tokens": 400, "dim": 2}, "flow": {"horizon": 1.0, "frames": 3}}
    axes = {"field.beta": [1.0, 4.0, 16.0, 64.0]}
    fast = plan_sweep(small(observables=["similarity"], base=base, axes=axes))
    assert estimate(fast).groups == 4
    slow = {**base, "flow": {**base["flow"], "sum": "dense"}}
    dense = plan_sweep(small(observables=["similarity"], base=slow, axes=axes))
    assert estimate(dense).groups == 1
    assert estimate(fast).seconds > estimate(dense).seconds + 3
    # Workers start at the same time, and each compiles the four sums.
    assert estimate(fast, workers=1).seconds - estimate(fast).seconds >= 2
    assert "on 2 workers with start and compiling" in str(estimate(fast, workers=2))
    assert estimate(fast, missing=0).seconds == 0


def test_the_estimate_counts_the_short_steps_of_strong_noise():
    def seconds(kappa):
        field = [{"kind": "self_attention"}, {"kind": "noise", "kappa": kappa}]
        base = {"measure": {"tokens": 64, "dim": 2}, "field": field, "flow": {"horizon": 20.0}}
        axes = {"field.0.beta": [2.0]}
        return estimate(plan_sweep(small(observables=["last_clusters"], base=base, axes=axes)))

    # Steps are 2 % of κ: a hundred times as many.
    few, many = seconds(1.0).seconds, seconds(0.01).seconds
    repetitions = small().repetitions
    assert many - few > repetitions * 99_000 * 1e-4
