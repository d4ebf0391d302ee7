"""Folders of learning experiments, with their pages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metastable.core.folder import MANIFEST, claimed
from metastable.core.provenance import write_manifest

if TYPE_CHECKING:
    from metastable.learn.lesson import Lesson

__all__ = ["learn_and_keep"]


def learn_and_keep(spec: Any, folder: Path | None) -> Lesson:
    """Carry out a lesson and, given a folder, keep everything about it there, page included.

    Folders are refused, resumed and completed as by `kinds.run`.
    """
    from metastable.learn.build import run_lesson
    from metastable.report.learning import report_lesson

    started = datetime.now(UTC)
    if folder is None:
        return run_lesson(spec)
    with claimed(folder, spec) as unfinished:
        lesson = run_lesson(spec, unfinished)
        (folder / MANIFEST).unlink(missing_ok=True)  # of an interrupted lesson
        report_lesson(lesson, folder)
        described = spec.model_dump(mode="json", exclude_none=True)
        facts = dict(lesson.facts)
        write_manifest(folder, described, spec.digest, started, lesson.outcome, facts, {})
    return lesson
