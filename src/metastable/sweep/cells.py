"""One cell of a sweep, from its spec to its numbers: pure, with the same bits everywhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metastable.core.outcome import Outcome
from metastable.fields.build import build_field
from metastable.fields.random import is_noisy
from metastable.fields.schedule import jumps
from metastable.flows.batch import BATCH as BATCH
from metastable.flows.batch import SMALL, flow_batch
from metastable.flows.build import build_start, run_experiment
from metastable.flows.ensemble import choose_form, sample_ensemble
from metastable.flows.spec import AdaptiveSpec, Experiment
from metastable.flows.steppers import Adaptive
from metastable.flows.trajectory import Trajectory
from metastable.measures.spec import Uniform
from metastable.sweep.observables import ERROR
from metastable.sweep.own import tally
from metastable.sweep.plan import Cell, CellSettings, Index
from metastable.sweep.spec import experiment_with

# XLA's own failures are RuntimeErrors; a bug of ours (TypeError, …) must stay loud.
_FAILURES = (ValueError, ArithmeticError, MemoryError, RuntimeError)


@dataclass(frozen=True)
class Computed:
    """What became of a cell: arrays by observable, or an outcome that says why there are none."""

    index: Index
    outcome: Outcome
    values: dict[str, np.ndarray]


def compute(recipe: CellSettings, cells: Sequence[Cell]) -> list[Computed]:
    """Compute cells that share compiled code; a cell that fails takes no other with it."""
    experiments = [experiment_of(recipe, cell) for cell in cells]
    runs: Sequence[Trajectory | None] = [None] * len(cells)
    if moves_together(recipe, experiments[0]):
        runs = _run_batch(experiments)
    return [_result(recipe, *each) for each in zip(cells, experiments, runs, strict=True)]


def moves_together(recipe: CellSettings, experiment: Experiment) -> bool:
    """Whether cells like this one are small enough to share a compiled call."""
    start, how = experiment.measure, experiment.flow
    tokens, dim = getattr(start, "tokens", SMALL), getattr(start, "dim", 0)
    return (
        recipe.samples == 1
        and not recipe.of_starts
        and isinstance(how.stepper, AdaptiveSpec | None)
        and not how.check
        and tokens * (tokens + dim) <= SMALL
        and _is_quiet(experiment)
    )


def _is_quiet(experiment: Experiment) -> bool:
    """Without noise and switches: nothing that a compiled solve cannot carry."""
    if _is_plain(experiment):
        return True  # a spec that says so need not be built
    try:
        field = build_field(experiment.field, getattr(experiment.measure, "dim", 2))
    except _FAILURES:
        return False  # alone, the cell will say what it needs
    return not is_noisy(field) and not jumps(field)


def _is_plain(experiment: Experiment) -> bool:
    """Attention on the sphere without noise."""
    return getattr(experiment.field, "kind", "") in ("self_attention", "multi_head")


def experiment_of(recipe: CellSettings, cell: Cell, sample: int = 0) -> Experiment:
    """The experiment of a cell; its seeds are the cell's, where no axis sets them."""
    seed = (cell.seed + sample * 0x9E3779B97F4A7C15) % 2**63  # neighbours of a seed stay apart
    measure = experiment_with(recipe.base, cell.overrides).measure
    own = {"flow.seed": seed}
    # A case may replace the whole measure, with a seed of its own or without one.
    replaced = cell.overrides.get("measure", {})
    if "seed" in type(measure).model_fields and "seed" not in replaced:
        own["measure.seed"] = seed
    return experiment_with(recipe.base, own | cell.overrides)


def _result(
    recipe: CellSettings, cell: Cell, experiment: Experiment, run: Trajectory | None
) -> Computed:
    try:
        values, outcome = _observe(recipe, cell, experiment, run)
    except _FAILURES as error:
        text = " ".join(str(error).split("\n---")[0].split())
        values, outcome = {}, Outcome("error", text or type(error).__name__)
    return Computed(cell.index, outcome, values)


def _observe(
    recipe: CellSettings, cell: Cell, experiment: Experiment, run: Trajectory | None
) -> tuple[dict[str, np.ndarray], Outcome]:
    ensemble = _ensemble(recipe, experiment)
    if ensemble is not None:
        return ensemble, Outcome.done()
    read: dict[str, list[np.ndarray]] = {one.name: [] for one in recipe.observables}
    together = moves_together(replace(recipe, samples=1), experiment)
    several: list[Trajectory | None] = []
    for sample in range(recipe.samples):
        how = experiment if recipe.samples == 1 else experiment_of(recipe, cell, sample)
        if recipe.samples > 1 and together:
            if not several:
                ahead = range(sample, min(sample + BATCH, recipe.samples))
                several = _run_batch([experiment_of(recipe, cell, one) for one in ahead])
            run = several.pop(0)
        if recipe.of_starts:
            start = build_start(how)
            for one in recipe.observables:
                assert one.at_start is not None
                read[one.name].append(np.asarray(one.at_start(*start), float))
            continue
        if run is None:
            run = run_experiment(how, progress=False)
        if run.outcome.name == "interrupted":
            raise KeyboardInterrupt
        if run.outcome.name != "done":
            return {}, run.outcome
        if recipe.times is not None and not np.array_equal(run.times, recipe.times):
            raise ValueError(f"the frames of a cell must be those of the plan; got {run.times}.")
        for observable in recipe.observables:
            read[observable.name].append(np.asarray(observable.read(run), float))
        run = None
    claims = {one.name for one in recipe.observables if one.is_claim}
    return _averaged(read, claims), Outcome.done()


def _averaged(read: dict[str, Any], claims: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Means over samples, which come first, and with several their standard errors.

    Of `claims` the runs are counted instead.
    """
    kept: dict[str, np.ndarray] = {}
    for name, each in read.items():
        if name in claims:
            kept |= tally(name, each)
            continue
        kept[name] = np.mean(each, axis=0)
        if len(each) > 1:
            with np.errstate(invalid="ignore"):  # infinite lifetimes have a mean, and no error
                kept[name + ERROR] = np.std(each, axis=0, ddof=1) / np.sqrt(len(each))
    return kept


def _ensemble(recipe: CellSettings, experiment: Experiment) -> dict[str, np.ndarray] | None:
    """All samples at once, where pairs of tokens tell everything that is asked for."""
    readers: dict[str, Any] = {each.name: each.ensemble for each in recipe.observables}
    if recipe.samples == 1 or None in readers.values() or recipe.times is None:
        return None
    start, how = experiment.measure, experiment.flow
    if not isinstance(start, Uniform) or how.stepper is not None or not _is_plain(experiment):
        return None
    field = build_start(experiment)[1]
    form = choose_form(field, start.tokens, start.dim)
    if form is None:
        return None
    each = lambda form, state: {name: read(form, state) for name, read in readers.items()}
    observe = _READERS.setdefault(tuple(readers), each)
    size = recipe.samples, start.tokens, start.dim
    read = sample_ensemble(form, start.seed, *size, float(how.horizon), how.frames, observe)
    return _averaged({name: np.asarray(values, float).T for name, values in read.items()})


# One function for each set of observables: compiled code is found again by its identity.
_READERS: dict[tuple[str, ...], Any] = {}


def _run_batch(experiments: Sequence[Experiment]) -> list[Trajectory | None]:
    """Runs of equal shape in one compiled call, or None for those that must be run alone."""
    try:
        starts = [build_start(experiment) for experiment in experiments]
    except _FAILURES:
        return [None] * len(experiments)  # alone, the bad one will say what it needs
    hows = {experiment.flow.model_dump_json(exclude={"seed"}) for experiment in experiments}
    if len(hows) > 1:
        return [None] * len(experiments)
    how = experiments[0].flow
    stepper = how.stepper or AdaptiveSpec()
    assert isinstance(stepper, AdaptiveSpec)
    solver = Adaptive(stepper.rtol, stepper.atol, max_steps=stepper.max_steps)
    runs = flow_batch(starts, float(how.horizon), how.frames, solver)
    return [None if run is None else replace(run, stepper=solver) for run in runs]
