"""How many harmonics a density is followed with, and what happens past the last of them."""

from __future__ import annotations

import equinox as eqx

from metastable.core import checks
from metastable.flows.steppers.adaptive import Adaptive
from metastable.flows.steppers.fixed import Fixed
from metastable.measures.density import MOST, MOST_ZONAL, Density


class Resolution(eqx.Module):
    """How many harmonics a density is followed with.

    - `least`: the degree to start with (the density's own, if that is higher); 32 by default.
    - `most`: the degree beyond which the run ends as unresolved; by default 4096 on the circle,
      128 on S², 1024 for zonal densities.
    - `tail`: the degree is doubled as soon as the last eighth of the harmonics exceeds this share
      of the largest: until then the neglected ones are smaller still.
    - `handover`: a number of tokens with which an unresolved run goes on by itself to the horizon;
      its later frames are `Points`.
    - `stepper`: `Adaptive(...)` or `Fixed(...)`; its tolerances are relative to the largest
      coefficient, 1e−10 by default.
    """

    least: int = eqx.field(static=True, default=32)
    most: int | None = eqx.field(static=True, default=None)
    tail: float = eqx.field(static=True, converter=checks.plain_number, default=1e-11)
    handover: int | None = eqx.field(static=True, default=None)
    stepper: Adaptive | Fixed | None = None

    def __check_init__(self) -> None:
        checks.integer("least", self.least, 1)
        if self.most is not None:
            checks.integer("most", self.most, self.least, "It cannot be below least.")
        checks.positive("tail", self.tail)
        if self.handover is not None:
            checks.integer("handover", self.handover, 2)
        if self.stepper is not None:
            checks.instance(
                "stepper", self.stepper, (Adaptive, Fixed), "Adaptive(...) or Fixed(...)"
            )

    def limit(self, density: Density) -> int:
        """The highest degree that this density may reach."""
        if self.most is not None:
            return self.most
        return max(MOST_ZONAL if density.zonal else MOST[density.dim], self.least)
