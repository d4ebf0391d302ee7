"""A lesson of many trainings ends at the first one that is cut short, with what it has so far."""

from __future__ import annotations

from metastable.core.outcome import Outcome
from metastable.learn.training import Training

__all__ = ["Cut", "unless_cut"]


class Cut(Exception):
    """A training was interrupted; `outcome` says so."""

    def __init__(self, outcome: Outcome):
        super().__init__(outcome.message)
        self.outcome = outcome


def unless_cut(training: Training) -> Training:
    """The training itself, or `Cut` where Ctrl-C ended it."""
    if training.outcome.name == "interrupted":
        raise Cut(training.outcome)
    return training
