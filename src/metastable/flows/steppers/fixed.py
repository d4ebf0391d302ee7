"""Equal steps."""

from __future__ import annotations

import diffrax
import equinox as eqx

from metastable.core import checks


class Fixed(eqx.Module):
    """Equal steps of length `step`; `diffrax.Euler()` gives the scheme of the paper scripts."""

    step: float = eqx.field(static=True, converter=checks.plain_number)
    solver: diffrax.AbstractSolver = eqx.field(default_factory=diffrax.Tsit5)
    max_steps: int = eqx.field(static=True, default=10_000_000)

    def __check_init__(self) -> None:
        checks.positive("step", self.step)
        checks.integer("max_steps", self.max_steps, 1)

    @property
    def name(self) -> str:
        return f"{type(self.solver).__name__}(step={self.step:g})"

    @property
    def controller(self) -> diffrax.AbstractStepSizeController:
        return diffrax.ConstantStepSize()
