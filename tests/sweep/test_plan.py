"""Plans: stable seeds, lazy cells, frames as the flow keeps them, costs before the start."""

import tracemalloc
from itertools import islice, pairwise

import numpy as np
import pytest

from metastable.flows.build import run_experiment
from metastable.spec.sweep import Sweep, experiment_with
from metastable.sweep.estimate import estimate
from metastable.sweep.extend import extended
from metastable.sweep.plan import plan_sweep
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
