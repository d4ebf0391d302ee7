"""What every solver answers: a measure under way, moved on call by call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.fields.sums import Sum
from metastable.flows.mergers import Ledger, Mergers
from metastable.flows.solvers.frames import Frame, KeptFrames
from metastable.flows.trajectory import Trajectory


class Choices(NamedTuple):
    """What `flow` and `drive` are told beside measure, field and horizon."""

    stepper: Any = None
    sum: Sum | None = None
    frames: Any = 101
    seed: int = 0
    spacing: float = 0.25  # in log t, at first, between the frames of runs that merge tokens


class Solver(ABC):
    """A measure under way, one equation and one way of stepping.

    The constructor refuses what cannot be solved and computes nothing; `kept` holds the first
    frame. `start()` sets out; then `advance()` runs one compiled segment, event or chunk of layers
    and returns the new frames, until `outcome` is no longer None. `traced()` is the same run as
    one differentiable call.
    """

    resumable: ClassVar[bool] = False  # whether `state` and `restore` exist
    measure: Any
    field: Field
    sum: Sum | None = None  # how the mean over tokens is evaluated, where there is one
    kept: list[Frame]  # the frames so far
    outcome: Outcome | None = None  # None while under way

    @abstractmethod
    def start(self) -> None:
        """Set out."""

    @abstractmethod
    def advance(self) -> Sequence[Frame]:
        """Move on; the new frames. Sets `outcome` where the run ends."""

    @property
    @abstractmethod
    def share(self) -> float:
        """How much of the work is done, from 0 to 1."""

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """What the run has cost, and which choices it made."""

    def end(self) -> None:
        """End the run as interrupted."""
        self.outcome = Outcome.interrupted(self.kept[-1].time)

    def drop(self, count: int) -> None:
        """Forget the last frames: nobody has seen them, and the run ends before."""
        del self.kept[len(self.kept) - count :]

    @property
    def identity(self) -> Any:
        """A tree of all that decides the numbers, for the fingerprint of a checkpoint."""
        return None

    def state(self) -> dict[str, Any]:
        """All that `restore` needs to go on, as a tree of arrays."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Stand where `state` was taken."""
        raise ValueError(f"{type(self).__name__} cannot be restored.")

    def traced(self) -> Trajectory:
        raise ValueError(
            f"{type(self).__name__} cannot be traced by jit, grad or vmap: call flow(...) with "
            "numbers, or with tokens and Adaptive(...), Fixed(...), Geodesic(...) or Layers(...)."
        )

    @property
    def clock(self) -> str:
        return self.field.clock or "none"

    @property
    def mergers(self) -> Mergers | None:
        """Which tokens became one, where tokens merge."""
        return None

    def trajectory(self, seconds: float) -> Trajectory:
        """The run so far, at any moment."""
        kept, mergers = self.kept, self.mergers
        return Trajectory(
            times=np.array([frame.time for frame in kept]),
            frames=tuple(frame.measure for frame in kept),
            clock=self.clock,
            outcome=self.outcome or Outcome.interrupted(kept[-1].time),
            statistics={**self.statistics(), "seconds": seconds},
            field=self.field,
            log_times=None if mergers is None else np.array([frame.log_time for frame in kept]),
            mergers=mergers,
        )

    def norm_drift(self) -> float:
        """How far tokens in the kept frames are off the sphere."""
        norms = (np.linalg.norm(frame.measure.points, axis=-1) for frame in self.kept)
        return max(float(np.max(np.abs(norm - 1))) for norm in norms)


class MergerSolver(Solver):
    """A run that merges tokens: mergers in a ledger, frames in bounded memory."""

    frames: KeptFrames
    ledger: Ledger

    @property
    def kept(self) -> list[Frame]:
        return self.frames.kept

    @property
    def mergers(self) -> Mergers:
        return self.ledger.mergers()

    @property
    def share(self) -> float:
        return len(self.ledger.rows) / max(self.measure.count - 1, 1)
