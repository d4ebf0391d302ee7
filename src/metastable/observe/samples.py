"""Many random starts of one flow: shares of what they end in, means over time, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
from scipy.special import stdtrit

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.core.result import Result
from metastable.core.spec import Spec
from metastable.fields import Field
from metastable.flows.batch import BATCH, flow_batch, moves_together
from metastable.flows.driving import flow
from metastable.flows.steppers import Adaptive
from metastable.flows.trajectory import Trajectory
from metastable.measures import Measure, Points
from metastable.observe.equilibria import Share

WORTH = 2000  # frames in all from which an observable is compiled


def ensemble(
    start: Callable[[int], Any],
    field: Field,
    horizon: float,
    *,
    samples: int,
    observe: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
    seed: int = 0,
    stepper: Any = None,
    frames: Any = 101,
    progress: bool | None = None,
) -> Result:
    """Flow many starts and say how they end, with 95 % intervals.

    - `start`: a function of a seed that gives a measure. It is asked for the seeds `seed`,
      `seed` + 1, …, which are those of the noise too. Intervals take the starts for independent.
    - `observe`: a function of a measure, or several by name, asked in every frame. Whole numbers,
      words and truth values have shares (Wilson's interval); other numbers, and arrays, a mean
      (Student's: m ± t s/√samples, where means are nearly normal).
    - `stepper`, `frames`, `progress`: as in `flow`.

    `data["samples"]` has each observable over (sample, time), and `NAME_interval` with its
    estimate, low and high; `data["ends"]` the last frames. Where runs have times of their own, as
    with `Merging`, all is about the last frame, as facts and sentence always are. A start that does
    not reach the horizon counts in no mean and for no share; the outcome says so.

    Up to some 120 tokens, without noise or switches, starts move together in one compiled call,
    whatever the field; an observable written in JAX is compiled too, for all frames of a run.

    >>> import metastable as ms
    >>> start = lambda seed: ms.uniform(tokens=4, dim=3, seed=seed)
    >>> count = lambda measure: ms.clusters(measure).count
    >>> ms.ensemble(start, ms.SelfAttention(1.0), 40.0, samples=20, observe={"clusters": count})
    Of 20 starts 100 % end with clusters = 1 (84 to 100 %).
      samples              20
      seeds                0 to 19
      clock                SA
      clusters at the end  1 100.0% of 20 starts (95%: 83.9% to 100.0%)
      outcome              done: Every start reached the horizon.
    """
    checks.function("start", start, "a function of a seed: lambda seed: ms.uniform(8, 3, seed)")
    checks.instance("field", field, Field, "a field")
    seeds = range(checks.seed(seed), seed + checks.integer("samples", samples, 1))
    named = observe if isinstance(observe, Mapping) else {"value": observe}
    for name, function in named.items():
        checks.function(f"observe[{name!r}]", function, "a function of a measure")
    ends: dict[int, Trajectory] = {}  # by seed, with the last frame alone
    seen: list[dict[str, Any]] = []
    read = {name: _Reader(name, function, samples) for name, function in named.items()}
    lost: dict[int, Outcome] = {}
    with Bar("ensemble", progress) as bar:
        try:
            for one, run in _runs(start, field, horizon, seeds, stepper, frames):
                if run.outcome.name == "interrupted":
                    raise KeyboardInterrupt
                if run.outcome.name == "done":
                    seen.append({name: reader.series(run, one) for name, reader in read.items()})
                    ends[one] = replace(run, frames=run.frames[-1:])
                else:
                    lost[one] = run.outcome
                bar.update((len(seen) + len(lost)) / samples)
        except KeyboardInterrupt:
            if not ends:
                raise
    if not ends:
        raise ValueError(f"no start reaches the horizon; seed {seed}: {lost[seed].message}")
    return _result(ends, seen, lost, samples)


def _runs(
    start: Any, field: Field, horizon: float, seeds: range, stepper: Any, frames: Any
) -> Iterator[tuple[int, Trajectory]]:
    first: Any = None
    for k in range(0, len(seeds), BATCH):
        some = seeds[k : k + BATCH]
        measures = [start(one) for one in some]
        first = measures[0] if first is None else first
        for one, measure in zip(some, measures, strict=True):
            checks.instance(f"start({one})", measure, Measure, "a measure")
            if type(measure) is not type(first) or measure.dim != first.dim:
                raise ValueError(
                    f"start must give measures of one kind and dimension; got {first!r} for seed "
                    f"{seeds[0]} and {measure!r} for seed {one}."
                )
        runs: list[Trajectory | None] = [None] * len(some)
        if moves_together(first, field, stepper):
            checks.positive("horizon", horizon)
            pairs = [(measure, field) for measure in measures]
            runs = flow_batch(pairs, float(horizon), frames, stepper or Adaptive())
        alone = lambda measure, one: flow(
            measure, field, horizon, stepper=stepper, frames=frames, seed=one, progress=False
        )
        for one, measure, run in zip(some, measures, runs, strict=True):
            yield one, run or alone(measure, one)


class _Reader:
    """An observable asked in every frame; compiled for all frames of a run, where it can be.

    A function that must look at its numbers cannot be, and is asked frame by frame; so is one that
    is not asked often enough to be worth a compilation.
    """

    def __init__(self, name: str, function: Any, samples: int):
        self.name, self.function, self.samples = name, function, samples
        self.compiled: Any = None

    def series(self, run: Trajectory, seed: int) -> Any:
        first = run.frames[0]
        often = len(run.frames) * self.samples >= WORTH and isinstance(first, Points)
        if not often or any(frame.count != first.count for frame in run.frames):
            return _series(self.name, self.function, run, seed)
        try:
            self.compiled = self.compiled or eqx.filter_jit(self._of_frames)
            values = np.asarray(self.compiled(first, run.points))
            assert values.dtype.kind in "biuf"
        except Exception:  # of the function or of JAX: frame by frame it says what it wants
            self.samples = 0
            return _series(self.name, self.function, run, seed)
        return list(values)

    def _of_frames(self, first: Points, states: Any) -> Any:
        answer = lambda x: jnp.asarray(self.function(first.at(x)))
        return jax.lax.map(answer, jnp.asarray(states))


def _series(name: str, function: Any, run: Trajectory, seed: int) -> list[np.ndarray]:
    """What an observable says of each frame."""
    values = []
    for t, frame in zip(run.times, run.frames, strict=True):
        try:
            value = np.asarray(answer := function(frame))
        except Exception as error:  # whatever a function of the user may raise
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(
                f"observe[{name!r}] must answer in every frame; at t = {t:g} of seed {seed} it "
                f"raised {text}"
            ) from error
        if value.dtype.kind not in ("biuf" if value.ndim else "biufU"):
            need = "a number, a word or an array of numbers"
            raise ValueError(f"observe[{name!r}] must give {need}; got {type(answer).__name__}.")
        values.append(value)
    return values


def _shares(name: str, values: np.ndarray, tried: int) -> tuple[Any, np.ndarray, Any, str]:
    """What occurs; its shares (3, time, kind); those at the end, largest first; in words."""
    kinds = np.unique(values)
    hits = np.sum(values[..., None] == kinds, axis=0)
    bounds = np.array([[Share(int(h), tried).interval for h in row] for row in hits])
    table = np.stack([hits / tried, bounds[..., 0], bounds[..., 1]])
    ranked = [k for k in np.argsort(-hits[-1], stable=True) if hits[-1, k]]
    words = []
    for k in ranked[:3]:
        share, low, high = (f"{100 * value:.0f}" for value in table[:, -1, k])
        verb = "with" if words else "end with"
        words.append(f"{share} % {verb} {name} = {kinds[k]} ({low} to {high} %)")
    shares = {kinds[k].item(): Share(int(hits[-1, k]), tried) for k in ranked}
    return kinds, table, shares, ", ".join(words)


def _means(name: str, values: np.ndarray) -> tuple[Any, np.ndarray, Any, str]:
    """As `_shares`, for means (3, time, …); one sample alone has no interval (NaN)."""
    more, mean = len(values) - 1, values.mean(axis=0)
    half = stdtrit(more, 0.975) * values.std(axis=0) / np.sqrt(max(more, 1))
    table = np.stack([mean, mean - half, mean + half])
    if mean.ndim > 1:
        return None, table, None, ""
    fact = dict(zip(("mean", "low", "high"), table[:, -1].tolist(), strict=True))
    words = "the mean of {} ends at {:.4g} ({:.4g} to {:.4g})".format(name, *fact.values())
    return None, table, fact, words


def _result(
    ends: dict[int, Trajectory], seen: list[Any], lost: dict[int, Outcome], samples: int
) -> Result:
    import xarray

    tried, run = len(ends) + len(lost), next(iter(ends.values()))
    common = all(np.array_equal(end.times, run.times) for end in ends.values())
    times = run.times if common else run.times[-1:]
    coords: dict[str, Any] = {"sample": list(ends), "time": times}
    coords |= {"interval": ["estimate", "low", "high"]}
    facts: dict[str, Any] = {"samples": tried, "seeds": f"{min(ends)} to {max(ends)}"}
    facts |= {"clock": run.clock}
    variables, words = {}, []
    for name in seen[0]:
        shapes = {value.shape for one in seen for value in one[name]}
        if len(shapes) > 1:
            raise ValueError(f"observe[{name!r}] must give one shape; got {sorted(shapes)[:2]}.")
        values = np.array([one[name][-len(times) :] for one in seen])  # (sample, time, …)
        axes = tuple(f"{name}_{k}" for k in range(values.ndim - 2))
        variables[name] = ("sample", "time", *axes), values
        if axes or values.dtype.kind == "f":
            _, table, fact, text = _means(name, values)
        else:
            axes = (f"{name}_value",)
            coords[axes[0]], table, fact, text = _shares(name, values, tried)
        variables[f"{name}_interval"] = ("interval", "time", *axes), table
        if text:
            facts[f"{name} at the end"] = fact
            words.append(text)
    data = xarray.Dataset(variables, coords)
    outcome = Outcome("done", "Every start reached the horizon.")
    if lost:
        one, how = next(iter(lost.items()))
        message = f"{len(lost)} of {tried} starts did not reach the horizon; seed {one}: "
        outcome = Outcome(how.name, message + how.message)
    if tried < samples:
        outcome = Outcome("interrupted", f"{tried} of {samples} starts were made; this is of them.")
    frames = [end.frames[-1] for end in ends.values()]
    last = Trajectory(np.array(list(ends)), frames, run.clock, outcome, {}, run.field)
    return Result(
        spec=Spec(kind="ensemble"),
        outcome=outcome,
        facts=facts,
        data={
            "samples": data if common else data.isel(time=-1, drop=True),
            "ends": last.to_dataset().rename(time="sample"),
        },
        sentence=f"Of {tried} starts {'; '.join(words) or 'the means are in data'}.",
    )
