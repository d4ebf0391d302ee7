"""Steps as long as an error tolerance allows."""

from __future__ import annotations

import diffrax
import equinox as eqx

from metastable.core import checks


class Adaptive(eqx.Module):
    """Steps of an explicit Runge–Kutta pair, as long as the local error stays below tolerance.

    `rtol` and `atol` bound the error of one step in root mean square over all coordinates. The
    order-8 default needs the fewest evaluations from about 1e−6 downwards.
    """

    rtol: float = eqx.field(static=True, converter=checks.plain_number, default=1e-9)
    atol: float = eqx.field(static=True, converter=checks.plain_number, default=1e-9)
    solver: diffrax.AbstractSolver = eqx.field(default_factory=diffrax.Dopri8)
    max_steps: int = eqx.field(static=True, default=100_000)

    def __check_init__(self) -> None:
        checks.positive("rtol", self.rtol)
        checks.positive("atol", self.atol)
        checks.integer("max_steps", self.max_steps, 1)

    @property
    def name(self) -> str:
        return f"{type(self.solver).__name__}(rtol={self.rtol:g}, atol={self.atol:g})"

    @property
    def controller(self) -> diffrax.AbstractStepSizeController:
        # Steps below 1e−14 of a time unit only occur on the way to a blow-up.
        return diffrax.PIDController(self.rtol, self.atol, dtmin=1e-14, force_dtmin=False)
