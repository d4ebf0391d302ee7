"""What remains of a live run: verdicts, and a result folder as `metastable run --out` makes it."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from pathlib import Path
from typing import Any

from metastable import results
from metastable.comparison import compare
from metastable.flows import Trajectory
from metastable.spec.experiment import Experiment, load_experiment

__all__ = ["complete", "store", "verdicts"]

JUDGED, FRAMES = 4e8, 101  # tokens² · frames, and frames, that are compared with theory
KEPT = 4e5  # tokens · frames kept of a run
STARTED = "started"  # the file that remembers when


def verdicts(run: Trajectory) -> tuple[list[dict[str, Any]], str]:
    """Rows of `compare`, numbers as text; or none, and a sentence that says why."""
    if run.outcome.name == "interrupted":
        return [], "Stopped early: only a run that ends by itself is compared with theory."
    run = _thinned(run, FRAMES)
    if run.frames[0].count ** 2 * len(run.frames) > JUDGED:
        return [], "Too many tokens to compare here: download the run, then `metastable compare`."
    rows = [dataclasses.asdict(row) for row in compare(run).rows]
    return [row | {k: _text(row[k]) for k in ("expected", "observed")} for row in rows], ""


def _text(value: Any) -> str | None:
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_text(v)}" for k, v in value.items())
    if isinstance(value, float):
        return f"{value:.5g}"
    return None if value is None else str(value)


def store(folder: Path, experiment: Experiment, run: Trajectory, started: datetime) -> None:
    """A result folder, its slow manifest aside; of a large run every k-th frame."""
    run = _thinned(run, max(2, int(KEPT / run.frames[0].count)))
    folder.mkdir()
    (folder / results.SPEC).write_text(experiment.to_toml(), encoding="utf-8")
    run.save(folder / results.FRAMES)
    (folder.parent / STARTED).write_text(started.isoformat())


def complete(folder: Path) -> None:
    """Add the manifest to what `store` wrote: now `metastable compare` accepts the folder."""
    experiment = load_experiment(folder / results.SPEC, {})
    run = results.load_frames(folder, experiment)
    started = datetime.fromisoformat((folder.parent / STARTED).read_text())
    results.keep_manifest(folder, experiment, run, started)


def _thinned(run: Trajectory, most: int) -> Trajectory:
    """Every k-th frame and the last, hardly more than `most`."""
    count = len(run.frames)
    every = max(1, -(-(count - 1) // (most - 1)))
    kept = sorted({*range(0, count, every), count - 1})
    return dataclasses.replace(
        run,
        times=run.times[kept],
        frames=tuple(run.frames[k] for k in kept),
        log_times=None if run.log_times is None else run.log_times[kept],
    )
