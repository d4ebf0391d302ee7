"""Tokens that become one as they collapse."""

from __future__ import annotations

import equinox as eqx

from metastable.core import checks
from metastable.flows.steppers.adaptive import Adaptive


class Merging(eqx.Module):
    """Tokens within `radius` (radians) that approach each other become one, at their mean.

    It carries a run from many tokens to the one final cluster, over times e^{cβ}. Clusters of
    separation φ last e^{β(1−cos φ)}, up to e^{2β} in all; the energy 2βe^{−β}E and the number of
    tokens form a staircase (arXiv:2410.06833). Steps follow the distance travelled, so that their
    number hardly grows with β, and time is kept as a logarithm: any β will do.

    Replacing two tokens r apart by one changes the weight e^{β⟨x,y⟩} they have for any other by a
    relative β(β+1)r²/8 at most (derived here), and only while they would still be apart: they fall
    together like e^{−t}. The default radius is 1e−4/max(1, β‖QᵀK‖), which is 2.5e−9 in that
    measure, and 5e4 times the default tolerance of positions. Measured (400 tokens, β = 9): the
    final cluster is off by 4e−13, and by 2e−10 and 3e−8 with ten and a hundred times the radius.
    The moment of a merger is the end of the step that brought the pair within reach: sharp to a few
    times of collapse, a few units of SA time.

    The tolerance rtol + atol of `stepper` bounds the error of a step, in positions times β and in
    time relative to the wait since the last merger. In `flow`, with this stepper:

    - `horizon`: final time; with `math.inf` the run ends when all tokens are one. A value matrix
      keeps moving even a single token; without a horizon the run ends there all the same.
    - the field is a `SelfAttention` without mask or positions, the tokens are on the sphere.
    - `sum`: how the field is summed while more than 512 tokens remain and move faster than 1e−7;
      after that all pairs are summed exactly.
    - `frames`: how many to keep at most, half of them spaced evenly in log t and half at the last
      mergers; or an increasing array of times, met exactly.

    The result carries `mergers` and `log_times`; `times` are infinite past 1e308. Field evaluations
    from 100 000 uniform tokens on the circle: 2400 at β = 9, 6500 at β = 100. One compilation
    serves a factor four in the number of tokens.

    >>> import math
    >>> import metastable as ms
    >>> start, field = ms.uniform(tokens=50, dim=3, seed=1), ms.SelfAttention(beta=20.0)
    >>> run = ms.flow(start, field, math.inf, stepper=Merging())
    >>> run.frames[-1].count, run.mergers
    (1, Mergers(49, from 50 tokens to 1))
    """

    radius: float | None = eqx.field(static=True, converter=checks.plain_number, default=None)
    stepper: Adaptive = eqx.field(default_factory=Adaptive)

    def __check_init__(self) -> None:
        if self.radius is not None:
            checks.positive("radius", self.radius)
        checks.instance("stepper", self.stepper, Adaptive, "Adaptive(...) in Merging")
