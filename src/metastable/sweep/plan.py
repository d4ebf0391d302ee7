"""From a sweep to its cells, one at a time: a plan of 10⁶ cells holds its axes only."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np

from metastable.flows.build import build_start
from metastable.flows.spec import Experiment, HardmaxSpec, LayersSpec, MergingSpec
from metastable.sweep.observables import ERROR, JUDGED, REFUTING, Observable, observables_named
from metastable.sweep.spec import Sweep, canonical, experiment_with

Index = tuple[int, ...]


@dataclass(frozen=True)
class CellSettings:
    """What all cells of a sweep have in common; small enough to travel with every task."""

    base: dict[str, Any]
    names: tuple[str, ...]  # of the observables
    samples: int
    times: np.ndarray | None

    @property
    def observables(self) -> tuple[Observable, ...]:
        return observables_named(self.names)

    @property
    def of_starts(self) -> bool:
        """Whether the starts tell everything that is asked for, and nothing need move."""
        return all(one.at_start is not None for one in self.observables)


@dataclass(frozen=True)
class Cell:
    """One cell: where it stands in the plan, what it sets in the base, and its seed."""

    index: Index
    overrides: dict[str, Any]
    seed: int


@dataclass(frozen=True)
class Plan:
    """Axes with their values, in the order of the store, and the grid of times."""

    sweep: Sweep
    keys: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    repetitions: int
    times: np.ndarray | None
    clock: str

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """A short name for each axis: the last word of its key, all of it where that is taken."""
        short = [key.split(".")[-1] for key in self.keys]
        taken = {"repetition", "time", "done", "outcome", *self.sweep.observables}
        return tuple(
            word if short.count(word) == 1 and word not in taken else key.replace(".", "_")
            for word, key in zip(short, self.keys, strict=True)
        )

    @property
    def shape(self) -> Index:
        return (*(len(values) for values in self.values), self.repetitions)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def observables(self) -> tuple[Observable, ...]:
        return observables_named(self.sweep.observables)

    @property
    def kept(self) -> tuple[Observable, ...]:
        """What the store keeps: observables, standard errors over samples, counts of claims."""
        beside = [
            replace(one, name=one.name + end, about=f"{what} of {one.name}{over}")
            for one in self.observables
            for end, what, over in _beside(one, self.sweep.samples)
        ]
        return (*self.observables, *beside)

    @property
    def recipe(self) -> CellSettings:
        return CellSettings(self.sweep.base, self.sweep.observables, self.sweep.samples, self.times)

    def cell(self, index: Index) -> Cell:
        """The cell at an index; its seed depends on values and repetition, not on the index."""
        chosen = [values[k] for values, k in zip(self.values, index, strict=False)]
        overrides: dict[str, Any] = {}
        for key, value in zip(self.keys, chosen, strict=True):
            overrides |= self.sweep.overrides(key, value)
        named = sorted(zip(self.keys, map(canonical, chosen), strict=True))
        said = [[] if self.sweep.same_starts else named, index[-1], self.sweep.seed]
        digest = hashlib.sha256(json.dumps(said).encode()).digest()
        return Cell(index, overrides, int.from_bytes(digest[:8], "big") >> 1)

    def indices(self) -> Iterator[Index]:
        """All indices; axes that change what has to be compiled vary slowest."""
        order = [*self._shaping, *(k for k in range(len(self.shape)) if k not in self._shaping)]
        for chosen in product(*(range(self.shape[k]) for k in order)):
            index = [0] * len(order)
            for k, value in zip(order, chosen, strict=True):
                index[k] = value
            yield tuple(index)

    def group(self, index: Index) -> Index:
        """Equal for cells that share compiled code."""
        return tuple(index[k] for k in self._shaping)

    @property
    def group_count(self) -> int:
        return math.prod(self.shape[k] for k in self._shaping)

    def groups(self, most: int) -> list[tuple[Experiment, int]]:
        """An experiment of each group (of `most` at most), and how many cells it stands for."""
        every = product(*(range(self.shape[k]) for k in self._shaping))
        experiments = []
        for chosen in islice(every, 0, None, -(-self.group_count // most)):
            index = [0] * len(self.shape)
            for k, value in zip(self._shaping, chosen, strict=True):
                index[k] = value
            overrides = self.cell(tuple(index)).overrides
            experiments.append(experiment_with(self.sweep.base, overrides))
        return [(experiment, self.size // len(experiments)) for experiment in experiments]

    @cached_property
    def _shaping(self) -> tuple[int, ...]:
        """Axes along which something other than a number changes."""
        return tuple(
            k
            for k, key in enumerate(self.keys)
            if len({_outline(experiment) for experiment in along(self.sweep, key)}) > 1
        )


def _beside(one: Observable, samples: int) -> list[tuple[str, str, str]]:
    """Endings of the names of what is kept beside an observable, and what they are."""
    if one.is_claim:
        return [(JUDGED, "runs judged", ""), (REFUTING, "runs refuted", "")]
    return [(ERROR, "standard error", " over samples")] * (samples > 1)


def plan_sweep(sweep: Sweep) -> Plan:
    """Check a sweep and lay out its cells.

    Every value of every axis is tried, so that bad input is refused before the start.
    """
    observables = observables_named(sweep.observables)
    _, field = build_start(next(along(sweep, next(iter(sweep.axes)))))
    grids = {_grid(experiment) for key in sweep.axes for experiment in along(sweep, key)}
    times = None
    if any(one.per_time for one in observables):
        if len(grids) > 1 or math.isinf(max(grids)[0]):
            raise ValueError(
                "observables of time need the same frames in every cell; got axes that change "
                "flow.horizon, flow.frames or flow.stepper, or runs that go from event to event: "
                "ask for observables without time."
            )
        times = _times(*grids.pop())
    values = tuple(tuple(sweep.values(key)) for key in sweep.axes)
    return Plan(sweep, tuple(sweep.axes), values, sweep.repetitions, times, field.clock or "none")


def along(sweep: Sweep, key: str) -> Iterator[Experiment]:
    """Experiments along one axis, the others at their first value."""
    first = {name: sweep.values(name)[0] for name in sweep.axes}
    for value in sweep.values(key):
        chosen = first | {key: value}
        leaves = (sweep.overrides(*one).items() for one in chosen.items())
        yield experiment_with(sweep.base, {k: v for pairs in leaves for k, v in pairs})


def _grid(experiment: Experiment) -> tuple[float, int, float]:
    """Horizon, frames, and the step of discrete depth (0 in continuous depth)."""
    how = experiment.flow
    if isinstance(how.stepper, MergingSpec | HardmaxSpec):
        return math.inf, how.frames, 0.0  # its frames follow its events
    step = how.stepper.step if isinstance(how.stepper, LayersSpec) else 0.0
    return float(how.horizon), how.frames, step


def _times(horizon: float, frames: int, step: float) -> np.ndarray:
    """The frames that `flow` and `layers` keep."""
    if step == 0:
        return np.linspace(0.0, horizon, frames)
    depth = round(horizon / step)
    stride = -(-depth // (min(frames, depth + 1) - 1))
    return np.minimum(np.arange(0, depth + stride, stride), depth) * step


def _outline(experiment: Experiment) -> str:
    return json.dumps(_shape(experiment.model_dump(mode="json")))


def _shape(node: Any, key: str = "") -> Any:
    """A tree without its real numbers and seeds: what is left decides the compiled code."""
    if isinstance(node, dict):
        return {k: _shape(v, k) for k, v in node.items()}
    if isinstance(node, list):
        return [_shape(v) for v in node]
    return "·" if isinstance(node, float) or key == "seed" else node
