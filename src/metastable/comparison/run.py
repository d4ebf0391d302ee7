"""One flow from its spec to its result: moved, observed, and compared with theory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from metastable.comparison import compare
from metastable.core.result import Result
from metastable.core.verdict import AGREE, DISAGREE, Comparison
from metastable.fields.build import build_field
from metastable.flows import Trajectory
from metastable.flows.build import build_start, build_stepper, run_experiment
from metastable.flows.spec import Experiment
from metastable.observe.summary import summarize

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
        data={TRAJECTORY: run.to_dataset()},
        sentence=_sentence(facts, verdicts),
    )


def trajectory_of(result: Result) -> Trajectory:
    """The run inside the result of a flow."""
    assert isinstance(result.spec, Experiment)
    run = Trajectory.from_dataset(result.data[TRAJECTORY])
    field = build_field(result.spec.field, run.frames[0].dim)
    stepper = build_stepper(result.spec.flow.stepper, run.frames[0], field)
    return dataclasses.replace(run, field=field, stepper=stepper)


def _sentence(facts: dict[str, Any], verdicts: Comparison | None) -> str:
    """Such as "1000 tokens end in 3 clusters at t = 20; theory: 11 agree, 0 disagree"."""
    count = facts["clusters"][-1][1]
    end = f"in {count} cluster{'' if count == 1 else 's'}"
    if "variances_last" in facts:
        who, largest = "A Gaussian ends", max(facts["variances_last"])
        end = f"with variances up to {largest:.3g}"
    elif facts["tokens"] is None:
        who = "A density ends"
    else:
        who = f"{facts['tokens']} tokens end{'s' if facts['tokens'] == 1 else ''}"
    sentence = f"{who} {end} at t = {facts['reached']:g} ({facts['clock']} clock)"
    if facts["outcome"] != "done":
        sentence += f" ({facts['outcome']})"
    if verdicts is None:
        return f"{sentence}."
    counts = f"{verdicts.count(AGREE)} agree, {verdicts.count(DISAGREE)} disagree"
    return f"{sentence}; theory: {counts}."
