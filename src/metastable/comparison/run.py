"""One flow from its spec to its result: moved, observed, and compared with theory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metastable.comparison import compare
from metastable.comparison.exit import FIRST
from metastable.core.result import Result
from metastable.core.verdict import Comparison
from metastable.fields.build import build_field
from metastable.flows import Trajectory
from metastable.flows.build import build_start, build_stepper, run_experiment
from metastable.flows.spec import Experiment
from metastable.observe.summary import summarize

if TYPE_CHECKING:
    import xarray

TRAJECTORY, CHECKPOINT = "trajectory", "flow.npz"


def prepare_run(spec: Experiment) -> Any:
    """Build start and field, and refuse what cannot run; gives the function that does the work.

    That function takes a folder for checkpoints, or None: then nothing is kept, and the run is not
    compared with theory either.
    """
    start = build_start(spec)

    def work(unfinished: Path | None, progress: bool | None) -> Result:
        checkpoint = None if unfinished is None else unfinished / CHECKPOINT
        run = run_experiment(spec, progress=progress, checkpoint=checkpoint, start=start)
        ended = run.outcome.name != "interrupted"
        return result_of_run(spec, run, compare(run) if unfinished is not None and ended else None)

    return work


def result_of_run(spec: Experiment, run: Trajectory, verdicts: Comparison | None = None) -> Result:
    """The result of a run, with its verdicts if it was compared with theory."""
    seed = getattr(spec.measure, "seed", None)
    facts = summarize(run, spec.flow.seed if seed is None else seed)
    facts |= {"horizon": spec.flow.horizon}
    return Result(
        spec=spec,
        outcome=run.outcome,
        facts=facts,
        verdicts=verdicts or Comparison((), run.clock),
        data=_Datasets(run),
        sentence=_sentence(facts, verdicts),
    )


def compared(result: Result) -> Result:
    """The result of a run that was not compared with theory, with its verdicts."""
    assert isinstance(result.spec, Experiment)
    run = trajectory_of(result)
    return dataclasses.replace(
        result_of_run(result.spec, run, compare(run)), manifest=result.manifest
    )


class _Datasets(Mapping[str, "xarray.Dataset"]):
    """The dataset of a run, made when it is first asked for.

    A run that is only printed needs none, and xarray takes half a second to load.
    """

    def __init__(self, run: Trajectory):
        self.run: Trajectory | None = run
        self.made: dict[str, xarray.Dataset] = {}

    def __getitem__(self, name: str) -> xarray.Dataset:
        if name == TRAJECTORY and self.run is not None:
            self.made[TRAJECTORY] = self.run.to_dataset()
            self.run = None
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        yield TRAJECTORY

    def __len__(self) -> int:
        return 1


def trajectory_of(result: Result) -> Trajectory:
    """The run inside the result of a flow."""
    assert isinstance(result.spec, Experiment)
    run = Trajectory.from_dataset(result.data[TRAJECTORY])
    field = build_field(result.spec.field, run.frames[0].dim)
    stepper = build_stepper(result.spec.flow.stepper, run.frames[0], field)
    return dataclasses.replace(run, field=field, stepper=stepper)


def _sentence(facts: dict[str, Any], verdicts: Comparison | None) -> str:
    """Such as "1000 tokens form 4 clusters by t = 4.8, theory said 3 to 5; 4 remain at t = 40"."""
    count, tokens = facts["clusters"][-1][1], facts["tokens"]
    rows = () if verdicts is None else verdicts.rows
    first = next((row for row in rows if row.claim == FIRST and row.expected), None)
    when = f"at t = {facts['reached']:.3g} ({facts['clock']} clock)"
    if "variances_last" in facts:
        said = f"A Gaussian ends with variances up to {max(facts['variances_last']):.3g} {when}"
    elif tokens is None:
        said = f"A density ends with {_plural(count, 'peak')} {when}"
    elif first is None:
        end = "ends" if tokens == 1 else "end"
        said = f"{_plural(tokens, 'token')} {end} in {_plural(count, 'cluster')} {when}"
    else:
        law = [int(part.split(":")[0]) for part in str(first.expected).split(", ")]
        span = f"{law[0]} to {law[-1]}" if len(law) > 1 else f"{law[0]}"
        said = f"{tokens} tokens form {_plural(first.observed, 'cluster')} {first.reason}, theory "
        said += f"said {span}; {count} remain{'s' * (count == 1)} {when}"
    if facts["outcome"] != "done":
        said += f" ({facts['outcome']})"
    return f"{said}; {verdicts.tally}." if verdicts is not None and rows else f"{said}."


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
