"""What a sweep will cost, said before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metastable.fields.sums.costs import dense_cost
from metastable.flows.ensemble import STEP, Gram
from metastable.spec import Experiment
from metastable.sweep.cells import BATCH, moves_together
from metastable.sweep.plan import Plan

__all__ = ["Estimate", "estimate"]

COMPILE, OVERHEAD = 3.0, 2e-3  # seconds for each compiled shape, and for each cell
LONG = 200.0  # taken for the length of a run that ends by itself
GROUPS = 200  # experiments looked at; more are judged by these


@dataclass(frozen=True)
class Estimate:
    """Rough costs: seconds of the flows on one worker, bytes of memory, bytes on disk.

    Observables and the short steps of noise are not counted: seconds may be ten times too few.
    """

    cells: int
    groups: int
    seconds: float
    memory: int
    disk: int

    def __str__(self) -> str:
        return (
            f"{self.cells} cells of {self.groups} compiled shape{'s' * (self.groups > 1)}: about "
            f"{_time(self.seconds)} on one worker, {_size(self.memory)} of memory for each, "
            f"{_size(self.disk)} on disk"
        )


def estimate(plan: Plan, missing: int | None = None) -> Estimate:
    """The cost of the cells that are missing, from their sizes alone; nothing is run."""
    groups = plan.groups(GROUPS)
    todo = plan.size if missing is None else missing
    share = todo / plan.size
    seconds = COMPILE * len(groups) * (todo > 0)
    memory = 0.0
    for experiment, cells in groups:
        work, numbers = _one(plan, experiment)
        seconds += share * cells * (OVERHEAD + work)
        memory = max(memory, 8.0 * numbers)
    chunks = [8 * len(plan.times) if one.per_time else 8 for one in plan.observables]  # type: ignore
    # A file takes whole blocks of the disk, however small it is.
    disk = plan.size * sum(4096 * math.ceil((chunk + 4) / 4096) for chunk in chunks)
    return Estimate(todo, plan.group_count, seconds, int(memory) + 400 * 2**20, disk)


def _one(plan: Plan, experiment: Experiment) -> tuple[float, float]:
    """Seconds of one cell, and numbers alive while it is computed."""
    start, how = experiment.measure, experiment.flow
    tokens = getattr(start, "tokens", None) or len(getattr(start, "points", None) or [()] * 100)
    dim, samples = getattr(start, "dim", 2), plan.sweep.samples
    frames = tokens * dim * how.frames
    horizon = LONG if how.horizon == "end" else float(how.horizon)
    if samples > 1 and all(one.ensemble for one in plan.observables):
        width = Gram.chunk * tokens * max(tokens, dim)
        steps = horizon * 2 / STEP
        return samples * steps * tokens**2 * (2e-9 + 1e-10 * min(dim, tokens)), 8.0 * width
    # Steps of order eight, some two for each unit of time, and a few for each segment.
    evaluations = 13 * (24 + 2 * horizon)
    work = samples * evaluations * dense_cost(tokens, dim) * 1e-6
    together = BATCH if moves_together(plan.recipe, experiment) else 1
    return work, 3.0 * frames * together + 16.0 * np.sqrt(tokens * dim)


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.3g} h"


def _size(count: float) -> str:
    power = min(int(math.log(max(count, 1), 1024)), 5)
    return f"{count / 1024**power:.3g} {'B KiB MiB GiB TiB PiB'.split()[power]}"
