"""Result folders: a run, its spec, its manifest, kept together and never overwritten."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metastable.core.folder import MANIFEST, claimed, naming, open_folder
from metastable.core.provenance import write_manifest
from metastable.flows import Trajectory
from metastable.flows.build import build_start, run_experiment
from metastable.observe.summary import summarize
from metastable.spec.experiment import Experiment, load_experiment

if TYPE_CHECKING:
    from metastable.learn.lesson import Lesson

__all__ = ["keep_manifest", "learn_and_keep", "load_frames", "load_run", "run_and_keep"]

SPEC, FRAMES, CHECKPOINT = "spec.toml", "trajectory.zarr", "checkpoint.npz"
CHECKPOINTS = "checkpoints"  # of a lesson, which may have many trainings


def run_and_keep(
    experiment: Experiment, folder: Path | None, progress: bool | None = None
) -> tuple[Trajectory, dict[str, Any]]:
    """Run an experiment and, given a folder, keep everything about it there.

    A folder that holds anything else is refused. One that holds the same experiment, cut short, is
    resumed from its checkpoint. The manifest is written last: a folder with one is complete.
    """
    started = datetime.now(UTC)
    if folder is None:
        run = run_experiment(experiment, progress=progress)
        return run, _summary(experiment, run) | {"out": None}
    build_start(experiment)  # bad input is refused before anything is written
    with _claimed(folder, experiment, lambda file: load_experiment(file, {})):
        checkpoint = folder / CHECKPOINT
        run = run_experiment(experiment, progress=progress, checkpoint=checkpoint)
        summary = _summary(experiment, run) | {"out": str(folder)}
        _keep_frames(run, folder)
        keep_manifest(folder, experiment, run, started, summary)
        if run.outcome.name != "interrupted":
            checkpoint.unlink(missing_ok=True)
    return run, summary


def keep_manifest(
    folder: Path,
    experiment: Experiment,
    run: Trajectory,
    started: datetime,
    summary: dict[str, Any] | None = None,
) -> None:
    """Seal the folder of a run, whose spec and frames are there."""
    summary = _summary(experiment, run) | {"out": None} if summary is None else summary
    spec = experiment.model_dump(mode="json", exclude_none=True)
    digest = experiment.digest
    write_manifest(folder, spec, digest, started, run.outcome, summary, [CHECKPOINT])


def load_run(folder: Path) -> tuple[Experiment, Trajectory, dict[str, Any]]:
    """The experiment, trajectory and manifest kept in a folder; the field is rebuilt.

    Every file is compared with its checksum first. `manifest["unchecked"]` says so where an older
    version kept none.
    """
    manifest = open_folder(
        folder,
        f"DIR must hold a finished run (with {MANIFEST}); got {folder}: make one with "
        "`metastable run --out DIR`.",
    )
    experiment = load_experiment(folder / SPEC, {})
    return experiment, load_frames(folder, experiment), manifest


def load_frames(folder: Path, experiment: Experiment) -> Trajectory:
    """The trajectory kept in a folder, with the field of its experiment."""
    from metastable.fields.build import build_field

    run = Trajectory.load(folder / FRAMES)
    field = build_field(experiment.field, run.frames[0].dim)
    return dataclasses.replace(run, field=field)


def learn_and_keep(spec: Any, folder: Path | None) -> Lesson:
    """Carry out a lesson and, given a folder, keep everything about it there, page included.

    Folders are refused, resumed and completed as by `run_and_keep`.
    """
    from metastable.learn.build import run_lesson
    from metastable.learn.spec import load_lesson
    from metastable.report.pages.learn import report_lesson

    started = datetime.now(UTC)
    if folder is None:
        return run_lesson(spec)
    with _claimed(folder, spec, load_lesson):
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        lesson = run_lesson(spec, folder / CHECKPOINTS)
        (folder / MANIFEST).unlink(missing_ok=True)  # of an interrupted lesson
        report_lesson(lesson, folder)
        described = spec.model_dump(mode="json", exclude_none=True)
        facts = dict(lesson.facts)
        write_manifest(
            folder, described, spec.digest, started, lesson.outcome, facts, [CHECKPOINTS]
        )
    return lesson


def _claimed(folder: Path, spec: Any, load: Callable[[Path], Any]) -> AbstractContextManager[None]:
    """Hold the folder for this spec; `load` reads a spec of this sort."""

    def same(file: Path) -> bool:
        try:
            return load(file).digest == spec.digest
        except ValueError:
            return False

    return claimed(folder, SPEC, spec.to_toml(), same, "run")


def _summary(experiment: Experiment, run: Trajectory) -> dict[str, Any]:
    seed = getattr(experiment.measure, "seed", None)
    summary = summarize(run, experiment.flow.seed if seed is None else seed)
    return summary | {"horizon": experiment.flow.horizon}


def _keep_frames(run: Trajectory, folder: Path) -> None:
    """Write the frames beside their place, then put them there; the folder is claimed."""
    part, place = folder / f"{FRAMES}.part", folder / FRAMES
    shutil.rmtree(part, ignore_errors=True)
    try:
        with naming(place):
            run.save(part)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    (folder / MANIFEST).unlink(missing_ok=True)  # of an interrupted run, like these frames
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)
