"""What a sweep will cost, said before it starts."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.core.checks import in_bytes
from metastable.fields.build import build_field
from metastable.fields.spec import NoiseSpec
from metastable.fields.sums import choose_sum
from metastable.fields.sums.costs import dense_cost
from metastable.flows.build import build_start
from metastable.flows.ensemble import Gram
from metastable.flows.spec import Experiment, HardmaxSpec, LayersSpec
from metastable.measures import Points
from metastable.sweep.cells import BATCH, moves_together
from metastable.sweep.observables import sampled_rows
from metastable.sweep.plan import Plan, along

# Seconds on one core of an AMD EPYC (Zen 4), for small cells: a worker imports and starts JAX, a
# shape is compiled, a cell that runs alone is cut in segments and read frame by frame.
START, COMPILE, ALONE, TOGETHER = 3.0, 4.0, 0.05, 0.01
LONG = 200.0  # taken for the length of a run that ends by itself
GROUPS = 200  # experiments looked at; more are judged by these
ALONG = 32  # values of an axis looked at


@dataclass(frozen=True)
class Estimate:
    """Rough costs of the missing cells: seconds by the clock, bytes of memory, bytes on disk.

    `seconds` includes the start of the workers and what each of them compiles. Costly observables
    of many tokens are not counted.
    """

    cells: int
    groups: int
    workers: int
    seconds: float
    memory: int
    disk: int

    def __str__(self) -> str:
        several = "s" * (self.workers > 1)
        memory, disk = in_bytes(self.memory, ".3g"), in_bytes(self.disk, ".3g")
        return (
            f"{self.cells} cells of {self.groups} compiled shape{'s' * (self.groups > 1)}: about "
            f"{_time(self.seconds)} on {self.workers} worker{several} with start and compiling, "
            f"{memory} of memory for each, {disk} on disk"
        )


def estimate(plan: Plan, missing: int | None = None, workers: int = 0) -> Estimate:
    """The cost of the cells that are missing, from their sizes alone; nothing is run.

    `workers` processes are started; with 0 the cells are computed in this one, which has started.
    """
    groups = plan.groups(GROUPS)
    todo = plan.size if missing is None else missing
    shapes = plan.group_count * _sums(plan, groups[0][0])
    work, memory = 0.0, 0.0
    for experiment, cells in groups:
        seconds, numbers = _one(plan, experiment)
        work += todo / plan.size * cells * seconds
        memory = max(memory, 8.0 * numbers)
    # Cells of one shape go to all workers, so that each compiles nearly every shape.
    at_once = min(max(workers, 1), os.cpu_count() or 1)
    turns = max(workers, 1) / at_once
    compiling = COMPILE * min(shapes, todo) * turns
    seconds = START * bool(workers) * turns + compiling + work / at_once
    chunks = [8 * len(plan.times) if one.per_time else 8 for one in plan.kept]  # type: ignore
    # A file takes whole blocks of the disk, however small it is.
    disk = plan.size * sum(4096 * math.ceil((chunk + 4) / 4096) for chunk in chunks)
    return Estimate(
        cells=todo,
        groups=shapes,
        workers=max(workers, 1),
        seconds=seconds * bool(todo),
        memory=int(memory) + 400 * 2**20,
        disk=disk,
    )


def _one(plan: Plan, experiment: Experiment) -> tuple[float, float]:
    """Seconds of one cell, and numbers alive while it is computed."""
    start, how = experiment.measure, experiment.flow
    tokens = getattr(start, "tokens", None) or len(getattr(start, "points", None) or [()] * 100)
    dim, samples = getattr(start, "dim", 2), plan.sweep.samples
    frames = float(tokens) * dim * how.frames
    horizon = LONG if how.horizon == "end" else float(how.horizon)
    if plan.recipe.of_starts:
        work = 2e-8 * tokens * sampled_rows(tokens)
        return samples * (TOGETHER + work), 4.0 * tokens * dim
    if _in_ensemble(plan):
        width = float(Gram.chunk) * tokens * max(tokens, dim)
        steps = horizon * 2 / Gram.length
        work = samples * steps * tokens**2 * (2e-9 + 1e-10 * min(dim, tokens))
        return TOGETHER + work, 8.0 * width
    together = moves_together(plan.recipe, experiment)
    each = dense_cost(tokens, dim) * 1e-6
    rate = _diffusion(experiment.field)
    if rate > 0:
        step = getattr(how.stepper, "step", None) or 0.02 / max(1.0, rate * max(dim - 1, 1))
        work = horizon / step * (2 * each + 4e-5)
    else:
        # Steps of order eight, some two for each unit of time, and a few for each segment.
        work = 13 * (24 + 2 * horizon) * each
    alone = TOGETHER if together else ALONE + 3e-4 * how.frames * len(plan.observables)
    numbers = 3.0 * frames * (BATCH if together else 1) + 16.0 * np.sqrt(float(tokens) * dim)
    return samples * (alone + work), numbers


def _in_ensemble(plan: Plan) -> bool:
    return plan.sweep.samples > 1 and all(one.ensemble for one in plan.observables)


def _sums(plan: Plan, first: Experiment) -> int:
    """How many different sums cells of one shape ask for: a fast sum is compiled for its degree.

    The degree follows β, which is a number and no shape to the plan.
    """
    how = first.flow
    whole = isinstance(how.stepper, LayersSpec | HardmaxSpec) or how.sum == "dense"
    if whole or plan.recipe.of_starts or _in_ensemble(plan) or moves_together(plan.recipe, first):
        return 1
    try:
        measure, _ = build_start(first)
        if not isinstance(measure, Points):
            return 1
        counts = [_along(plan, key, measure) for key in plan.keys if key.startswith("field")]
    except (ValueError, ArithmeticError):
        return 1  # the cell itself will say what it needs
    return math.prod(counts)


def _along(plan: Plan, key: str, measure: Points) -> int:
    """The number of sums along one axis, from at most `ALONG` of its values."""
    values = list(along(plan.sweep, key))
    spread = np.unique(np.linspace(0, len(values) - 1, ALONG).astype(int))
    fields = (build_field(values[k].field, measure.dim) for k in spread)
    names = {choose_sum(measure, field, 1e-11).name for field in fields}
    return 1 if len(names) == 1 else round(len(names) * len(values) / len(spread))


def _diffusion(field: Any) -> float:
    """1/κ of the noises of a field's spec."""
    parts = field if isinstance(field, Sequence) else (field,)
    return sum(1 / part.kappa for part in parts if isinstance(part, NoiseSpec))


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.3g} h"
