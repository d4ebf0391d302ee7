"""From the spec of a lesson to the lesson: one function for each kind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from metastable.learn.lesson import Lesson

__all__ = ["run_lesson"]

# kind → module of this folder and function in it, called as function(spec, folder). Imported on
# first use: most lessons need packages that the others do not.
_LESSONS = {
    "classification": ("neural_lessons", "learn_classes"),
    "deep_limit": ("neural_lessons", "learn_deep_limit"),
    "equivariant": ("equivariant", "learn_equivariant"),
}


def run_lesson(spec: Any, folder: Path | None = None) -> Lesson:
    """Carry out a lesson of `metastable.spec.learning`.

    `folder`, which must exist, keeps the checkpoints of its trainings, as many .npz files as it
    likes; carried out again with the same folder, the lesson goes on where it was cut short.
    """
    module, function = _LESSONS[spec.kind]
    return getattr(import_module(f"metastable.learn.{module}"), function)(spec, folder)
