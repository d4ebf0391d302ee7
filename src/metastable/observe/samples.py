"""What many runs of one flow show: an observable read of each, shares and means with intervals."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import numpy as np
from scipy.special import stdtrit

from metastable.core.numerics import jax, jnp
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points
from metastable.observe.equilibria import Share

WORTH = 2000  # frames in all from which an observable is compiled
LISTED = 8  # values whose shares are told one by one; of more, all but seven are told together
LONGEST = 70  # letters of a description on an axis


class Reader:
    """An observable asked in every frame; compiled for all frames of a run, where it can be.

    A function that must look at its numbers cannot be, and is asked frame by frame; so is one that
    is not asked often enough to be worth a compilation. A function that fails at the first measure,
    for want of what only a run has (`times`, `frames`, `mergers`), and not at the run, is one of
    whole runs (`of_run`), and is asked once of each.
    """

    def __init__(self, name: str, function: Any, samples: int):
        self.name, self.function, self.samples = name, function, samples
        self.compiled: Any = None
        self.of_run = self.begun = False

    @property
    def about(self) -> str:
        """What it is, in the first line of its docstring; else its name."""
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        lines = (getattr(function, "__doc__", None) or "").strip().splitlines()
        first = lines[0].rstrip(" .") if lines else ""
        return first if 0 < len(first) <= LONGEST else self.name.replace("_", " ")

    def series(self, run: Trajectory, seed: int) -> list[Any]:
        """What it says of each frame; of a whole run, that alone."""
        first = run.frames[0]
        often = len(run.frames) * self.samples >= WORTH and isinstance(first, Points)
        if self.of_run or not often or any(frame.count != first.count for frame in run.frames):
            return self._one_by_one(run, seed)
        try:
            self.compiled = self.compiled or eqx.filter_jit(self._of_frames)
            values = np.asarray(self.compiled(first, run.points))
            assert values.dtype.kind in "biuf"
        except Exception:  # of the function or of JAX: frame by frame it says what it wants
            self.samples = 0
            return self._one_by_one(run, seed)
        return list(values)

    def _of_frames(self, first: Points, states: Any) -> Any:
        answer = lambda x: jnp.asarray(self.function(first.at(x)))
        return jax.lax.map(answer, jnp.asarray(states))

    def _one_by_one(self, run: Trajectory, seed: int) -> list[Any]:
        if self.of_run:
            return [self._answer(run, f"of every run; of seed {seed}")]
        values = []
        for t, frame in zip(run.times, run.frames, strict=True):
            try:
                values.append(self._answer(frame, f"in every frame; at t = {t:g} of seed {seed}"))
            except ValueError as error:
                wants_run = isinstance(error.__cause__, AttributeError | TypeError)
                if self.begun or not wants_run:
                    raise
                try:
                    whole = self._answer(run, "")
                except ValueError as second:
                    text = str(second).split("it raised ")[-1]
                    raise ValueError(f"{error}; asked of the whole run, {text}") from error
                self.of_run = True
                return [whole]
            self.begun = True
        return values

    def _answer(self, thing: Any, where: str) -> np.ndarray:
        """What the function says; all that it may raise, in one line."""
        try:
            value = np.asarray(answer := self.function(thing))
        except Exception as error:  # whatever a function of the user may raise
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(
                f"observe[{self.name!r}] must answer {where} it raised {text}"
            ) from error
        if value.dtype.kind not in ("biuf" if value.ndim else "biufU"):
            need = "a number, a word or an array of numbers"
            got = type(answer).__name__
            raise ValueError(f"observe[{self.name!r}] must give {need}; got {got}.")
        return value


def shares(
    name: str, values: np.ndarray, tried: int, verb: str = "end with"
) -> tuple[Any, np.ndarray, Any, str]:
    """Of `values` (sample, time): what occurs; its shares (3, time, kind); those at the end; words.

    Shares at the end are by value, the most frequent first, with the rest together at last.
    """
    kinds = np.unique(values)
    hits = np.sum(values[..., None] == kinds, axis=0)
    bounds = np.array([[Share(int(h), tried).interval for h in row] for row in hits])
    table = np.stack([hits / tried, bounds[..., 0], bounds[..., 1]])
    ranked = [k for k in np.argsort(-hits[-1], stable=True) if hits[-1, k]]
    words = []
    for k in ranked[:3]:
        share, low, high = (f"{100 * value:.0f}" for value in table[:, -1, k])
        words.append(
            f"{share} % {'with' if words else verb} {name} = {kinds[k]} ({low} to {high} %)"
        )
    if ranked[3:]:
        words.append(f"{100 * np.sum(hits[-1, ranked[3:]]) / tried:.0f} % with other values")
    named = ranked if len(ranked) <= LISTED else ranked[: LISTED - 1]
    told: dict[Any, Share] = {kinds[k].item(): Share(int(hits[-1, k]), tried) for k in named}
    if rest := ranked[len(named) :]:
        told[f"{len(rest)} other values"] = Share(int(np.sum(hits[-1, rest])), tried)
    return kinds, table, told, ", ".join(words)


def means(name: str, values: np.ndarray, verb: str = "ends at") -> tuple[Any, np.ndarray, Any, str]:
    """As `shares`, for means (3, time, …); one sample alone has no interval (NaN).

    Samples without a finite value are left out, and the words say how many they are.
    """
    finite = np.isfinite(values)
    some = finite.sum(axis=0)
    count = np.where(some > 0, some, np.nan)
    filled = np.where(finite, values, 0.0)
    mean = filled.sum(axis=0) / count
    square = np.where(finite, filled - mean, 0.0) ** 2
    more = np.maximum(some - 1, 0)
    half = stdtrit(more, 0.975) * np.sqrt(square.sum(axis=0) / count / np.maximum(more, 1))
    table = np.stack([mean, mean - half, mean + half])
    if mean.ndim > 1:
        return None, table, None, ""
    fact: dict[str, Any] = dict(zip(("mean", "low", "high"), table[:, -1].tolist(), strict=True))
    words = "the mean of {} {} {:.4g} ({:.4g} to {:.4g})".format(name, verb, *fact.values())
    if none := len(values) - int(some[-1]):
        fact["without a value"] = none
        words += f", {none} without a value left out"
    return None, table, fact, words
