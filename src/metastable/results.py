"""Result folders: a run, its spec, its manifest, kept together and never overwritten."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metastable.flows import Trajectory
from metastable.flows.build import build_start, run_experiment
from metastable.manifest import write_manifest
from metastable.observe.summary import summarize
from metastable.spec import Experiment, load_experiment

if TYPE_CHECKING:
    from metastable.learn.lesson import Lesson

__all__ = ["learn_and_keep", "load_run", "run_and_keep"]

SPEC, FRAMES, MANIFEST, CHECKPOINT = (
    "spec.toml",
    "trajectory.zarr",
    "manifest.json",
    "checkpoint.npz",
)
CHECKPOINTS = "checkpoints"  # of a lesson, which may have many trainings


def run_and_keep(
    experiment: Experiment, folder: Path | None, progress: bool | None = None
) -> tuple[Trajectory, dict[str, Any]]:
    """Run an experiment and, given a folder, keep everything about it there.

    A folder that holds anything else is refused. One that holds the same experiment, cut short, is
    resumed from its checkpoint. The manifest is written last: a folder with one is complete.
    """
    started = datetime.now(UTC)
    if folder is not None:
        build_start(experiment)  # bad input is refused before anything is written
        _claim(folder, experiment, lambda file: load_experiment(file, {}))
    checkpoint = None if folder is None else folder / CHECKPOINT
    run = run_experiment(experiment, progress=progress, checkpoint=checkpoint)
    seed = getattr(experiment.measure, "seed", None)
    summary = summarize(run, experiment.flow.seed if seed is None else seed)
    summary["horizon"] = experiment.flow.horizon
    summary["out"] = None if folder is None else str(folder)
    if folder is not None:
        shutil.rmtree(folder / FRAMES, ignore_errors=True)  # only ever that of an interrupted run
        run.save(folder / FRAMES)
        if run.outcome.name != "interrupted":
            (folder / CHECKPOINT).unlink(missing_ok=True)
        described = experiment.model_dump(mode="json", exclude_none=True)
        write_manifest(folder, described, experiment.digest, started, run.outcome, summary)
    return run, summary


def load_run(folder: Path) -> tuple[Experiment, Trajectory, dict[str, Any]]:
    """The experiment, trajectory and manifest kept in a folder; the field is rebuilt."""
    import dataclasses

    from metastable.fields.build import build_field

    if not (folder / MANIFEST).is_file():
        raise ValueError(
            f"DIR must hold a finished run (with {MANIFEST}); got {folder}: make one with "
            "`metastable run --out DIR`."
        )
    manifest = json.loads((folder / MANIFEST).read_text())
    experiment = load_experiment(folder / SPEC, {})
    run = Trajectory.load(folder / FRAMES)
    field = build_field(experiment.field, run.frames[0].dim)
    return experiment, dataclasses.replace(run, field=field), manifest


def learn_and_keep(spec: Any, folder: Path | None) -> Lesson:
    """Carry out a lesson and, given a folder, keep everything about it there, page included.

    Folders are refused, resumed and completed as by `run_and_keep`.
    """
    from metastable.learn.build import run_lesson
    from metastable.report.learning import report_lesson
    from metastable.spec.learning import load_lesson

    started = datetime.now(UTC)
    if folder is None:
        return run_lesson(spec)
    _claim(folder, spec, load_lesson)
    (folder / CHECKPOINTS).mkdir(exist_ok=True)
    lesson = run_lesson(spec, folder / CHECKPOINTS)
    report_lesson(lesson, folder)
    described = spec.model_dump(mode="json", exclude_none=True)
    write_manifest(folder, described, spec.digest, started, lesson.outcome, dict(lesson.facts))
    return lesson


def _claim(folder: Path, spec: Any, load: Callable[[Path], Any]) -> None:
    """Make the folder ours, or say why it cannot be; `load` reads a spec of this sort."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not _same(folder, spec, load):
            raise ValueError(
                f"--out must be a new or empty folder; {folder} holds something else: choose "
                "another, or remove it yourself."
            )
        if _finished(folder):
            raise ValueError(
                f"--out {folder} already holds this run, finished: choose another folder, or "
                "remove it to run again."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SPEC).write_text(spec.to_toml(), encoding="utf-8")


def _same(folder: Path, spec: Any, load: Callable[[Path], Any]) -> bool:
    try:
        return load(folder / SPEC).digest == spec.digest
    except ValueError:
        return False


def _finished(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return False
    return manifest["outcome"]["name"] != "interrupted"
