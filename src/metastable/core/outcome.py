"""How a run ended."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended: a name for machines, a sentence with the remedy for people."""

    name: str
    message: str

    @classmethod
    def done(cls) -> Outcome:
        return cls("done", "The run reached its horizon.")

    @classmethod
    def step_limit(cls, t: float, limit: int) -> Outcome:
        return cls(
            "step_limit",
            f"The solver took {limit} steps and stood at t = {t:.6g}. Raise max_steps, loosen the "
            "tolerance, or shorten the horizon.",
        )

    @classmethod
    def blow_up(cls, t: float) -> Outcome:
        return cls(
            "blow_up",
            f"Tokens left the range of floating point after t = {t:.6g}. Shorten the horizon, or "
            "follow the rescaled tokens with Rescaled(...).",
        )

    @classmethod
    def unresolved(cls, t: float, degree: int) -> Outcome:
        return cls(
            "unresolved",
            f"tokens concentrate faster than resolution {degree}; continue with particles from "
            f"t = {t:.6g}: run.frames[-1].to_points(n), or Resolution(handover=n).",
        )

    @classmethod
    def interrupted(cls, t: float) -> Outcome:
        return cls(
            "interrupted",
            f"Interrupted at t = {t:.6g}; the frames so far are kept. Run it again to go on: the "
            "command line keeps a checkpoint in --out, flow(...) in checkpoint=.",
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"
