"""Many random starts of one flow: shares of what they end in, means, and claims over them."""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn

import numpy as np

from metastable.comparison.comparing import Claim, ask, listed
from metastable.comparison.pooling import name_of, pool
from metastable.core import checks
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.core.result import Result
from metastable.core.spec import Count, Seed, Spec
from metastable.core.verdict import Comparison
from metastable.fields import Field
from metastable.flows.batch import BATCH, flow_batch, moves_together
from metastable.flows.driving import flow
from metastable.flows.steppers import Adaptive
from metastable.flows.trajectory import Trajectory
from metastable.measures import Measure
from metastable.observe.samples import Reader, means, shares

LONGEST = 2000  # letters of the source of a function that a spec keeps


class Ensemble(Spec):
    """What an ensemble was asked; functions are kept as their source, to be read by people."""

    kind: Literal["ensemble"] = "ensemble"
    samples: Count
    seed: Seed
    horizon: float | Literal["end"]
    frames: Count | list[float]
    field: str
    stepper: str
    start: str
    observe: dict[str, str]
    claims: tuple[str, ...]


def refuse_spec(spec: Ensemble) -> NoReturn:
    raise ValueError(
        "an ensemble cannot be run from a spec, since its start and what it observes are functions:"
        " call ms.ensemble in Python, or state a sweep with samples."
    )


def ensemble(
    start: Callable[[int], Any],
    field: Field,
    horizon: float,
    *,
    samples: int,
    observe: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]] | None = None,
    claims: Iterable[Claim] = (),
    seed: int = 0,
    stepper: Any = None,
    frames: Any = 101,
    progress: bool | None = None,
) -> Result:
    """Flow many starts and say how they end, with 95 % intervals.

    - `start`: a function of a seed that gives a measure. It is asked for the seeds `seed`,
      `seed` + 1, …, which are those of the noise too. Intervals take the starts for independent.
    - `observe`: a function of a measure, or several by name, asked in every frame; one that asks
      for what only a run has (`times`, `frames`, `mergers`) is asked once of each run. Whole
      numbers, words and truth values have shares (Wilson's interval); other numbers, and arrays, a
      mean (Student's: m ± t s/√samples, where means are nearly normal).
    - `claims`: of yours, as `compare` takes them. Each is tested in every run, and a row of
      `verdicts` says in how many it holds; see `metastable.comparison.pooling.pool`. One marked
      `metastable.comparison.in_share(at_least=0.9)` is about a share of the starts.
    - `stepper`, `frames`, `progress`: as in `flow`.

    `data["samples"]` has each observable over (sample, time), and `NAME_interval` with its
    estimate, low and high; `data["ends"]` the last frames. Where runs have times of their own, as
    with `Merging`, all is about the last frame, as facts and sentence always are. A start that does
    not reach the horizon counts in no mean and for no share; the outcome says so. `save(folder)`
    keeps all of it, with a page.

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
    started = datetime.now(UTC)
    checks.function("start", start, "a function of a seed: lambda seed: ms.uniform(8, 3, seed)")
    checks.instance("field", field, Field, "a field")
    seeds = range(checks.seed(seed), seed + checks.integer("samples", samples, 1))
    named, own = _named(observe), listed(claims)
    if not named and not own:
        raise ValueError("observe or claims must be given; got neither: what is to be seen?")
    ends: dict[int, Trajectory] = {}  # by seed, with the last frame alone
    seen: list[dict[str, Any]] = []
    judged: dict[int, Any] = {}
    read = {name: Reader(name, function, samples) for name, function in named.items()}
    lost: dict[int, Outcome] = {}
    with Bar("ensemble", progress) as bar:
        try:
            for one, run in _runs(start, field, horizon, seeds, stepper, frames):
                if run.outcome.name == "interrupted":
                    raise KeyboardInterrupt
                if run.outcome.name == "done":
                    values = {name: reader.series(run, one) for name, reader in read.items()}
                    judged[one] = _judged(run, own, one)
                    seen.append(values)
                    ends[one] = replace(run, frames=run.frames[-1:])
                else:
                    lost[one] = run.outcome
                bar.update((len(seen) + len(lost)) / samples)
        except KeyboardInterrupt:
            if not ends:
                raise
    if not ends:
        raise ValueError(f"no start reaches the horizon; seed {seed}: {lost[seed].message}")
    spec = Ensemble(
        samples=samples,
        seed=seeds.start,
        horizon=float(horizon) if math.isfinite(horizon) else "end",
        frames=np.asarray(frames).tolist(),
        field=repr(field),
        stepper=repr(stepper or Adaptive()),
        start=_source(start),
        observe={name: _source(function) for name, function in named.items()},
        claims=tuple(map(_source, own)),
    )
    judged = {one: judged[one] for one in ends}
    verdicts = pool(own, judged, len(ends) + len(lost))
    result = _result(spec, read, ends, seen, lost, verdicts)
    return replace(result, manifest={"started": started.isoformat()})


def _named(observe: Any) -> dict[str, Any]:
    """Observables by name; one alone goes by that of its function."""
    if observe is None:
        return {}
    if not isinstance(observe, Mapping):
        name = getattr(observe, "__name__", "")
        observe = {name if name.isidentifier() else "value": observe}
    need = "a function of a measure or of a run (names are for sweeps)"
    for name, function in observe.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"observe must have words as names, without a /; got {name!r}.")
        checks.function(f"observe[{name!r}]", function, need)
    return dict(observe)


def _judged(run: Trajectory, claims: list[Claim], seed: int) -> list[Any]:
    """The rows of each claim on one run; what a function of the user raises, in one line."""
    rows = []
    for claim in claims:
        try:
            rows += ask(run, [claim])
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(
                f"the claim {name_of(claim)!r} must answer of every run, with None or "
                f"not_applicable where it has nothing to say; of seed {seed} it raised {text}"
            ) from error
    return rows


def _source(function: Any) -> str:
    """The lines of a function of the user; of others, where they are."""
    place = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    try:
        assert not place.startswith("metastable.")
        text = textwrap.dedent(inspect.getsource(function)).strip()
    except (OSError, TypeError, AssertionError):
        return place.strip(".") or type(function).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


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
            yield one, replace(run, stepper=stepper) if run else alone(measure, one)


def _result(
    spec: Ensemble,
    read: Mapping[str, Reader],
    ends: dict[int, Trajectory],
    seen: list[dict[str, Any]],
    lost: dict[int, Outcome],
    verdicts: tuple[Any, ...],
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
    for name, reader in read.items():
        shapes = {value.shape for one in seen for value in one[name]}
        if len(shapes) > 1:
            raise ValueError(f"observe[{name!r}] must give one shape; got {sorted(shapes)[:2]}.")
        moments = 1 if reader.of_run else len(times)
        values = np.array([one[name][-moments:] for one in seen])  # (sample, time, …)
        axes = tuple(f"{name}_{k}" for k in range(values.ndim - 2))
        inner = axes
        if axes or values.dtype.kind == "f":
            verb = "is" if reader.of_run else "ends at"
            _, table, fact, text = means(name, values, verb)
        else:
            inner, verb = (f"{name}_value",), "have" if reader.of_run else "end with"
            coords[inner[0]], table, fact, text = shares(name, values, tried, verb)
        when = () if reader.of_run else ("time",)
        if reader.of_run:
            values, table = values[:, 0], table[:, 0]
        about = {"about": reader.about, "of_run": int(reader.of_run)}
        variables[name] = ("sample", *when, *axes), values, about
        variables[f"{name}_interval"] = ("interval", *when, *inner), table
        if text:
            facts[f"{name}{'' if reader.of_run else ' at the end'}"] = fact
            words.append(text)
    last = times[-1] if common else np.inf
    when = f"t = {last:g} ({run.clock} clock)" if np.isfinite(last) else "the end of each run"
    attrs = {"observed": list(read), "starts": tried, "end": when, "clock": run.clock}
    data = xarray.Dataset(variables, coords, attrs)
    outcome = Outcome("done", "Every start reached the horizon.")
    if lost:
        one, how = next(iter(lost.items()))
        message = f"{len(lost)} of {tried} starts did not reach the horizon; seed {one}: "
        outcome = Outcome(how.name, message + how.message)
    if tried < spec.samples:
        message = f"{tried} of {spec.samples} starts were made; this is of them."
        outcome = Outcome("interrupted", message)
    frames = [end.frames[-1] for end in ends.values()]
    final = Trajectory(np.array(list(ends)), frames, run.clock, outcome, {}, run.field)
    comparison = Comparison(verdicts, run.clock)
    said = f"Of {tried} starts {'; '.join(words) or 'the means are in data'}"
    if verdicts:
        said = f"{said if words else f'{tried} starts'}; {comparison.tally}"
    return Result(
        spec=spec,
        outcome=outcome,
        facts=facts,
        verdicts=comparison,
        data={
            "samples": data if common else data.isel(time=-1, drop=True),
            "ends": final.to_dataset().rename(time="sample"),
        },
        sentence=f"{said}.",
    )
