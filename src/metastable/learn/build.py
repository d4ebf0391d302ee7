"""From the spec of a lesson to the lesson: one function for each kind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from metastable.learn.lesson import Lesson

__all__ = ["run_lesson"]

# kind → module and function in it, called as function(spec, folder). Imported on first use: most
# lessons need packages that the others do not, and some hear theory or a real model.
_LESSONS = {
    "classification": ("learn.neural.classification", "learn_classes"),
    "deep_limit": ("learn.neural.classification", "learn_deep_limit"),
    "equivariant": ("learn.neural.equivariant", "learn_equivariant"),
    "steering": ("learn.control.steering_experiment", "learn_steering"),
    "feedforward": ("learn.control.feedforward", "learn_feedforward"),
    "clusters": ("learn.control.clusters", "learn_clusters"),
    "particle_fit": ("models.particles", "learn_particles"),
}


def run_lesson(spec: Any, folder: Path | None = None) -> Lesson:
    """Carry out a lesson of `metastable.learn.spec`.

    `folder`, which must exist, keeps the checkpoints of its trainings, as many .npz files as it
    likes; carried out again with the same folder, the lesson goes on where it was cut short.
    """
    module, function = _LESSONS[spec.kind]
    return getattr(import_module(f"metastable.{module}"), function)(spec, folder)
