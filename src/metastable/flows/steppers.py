"""The choice of time: how a measure is moved, as one object that `flow` takes as `stepper`."""

from __future__ import annotations

import math

import diffrax
import equinox as eqx

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields import Field
from metastable.fields.noise import diffusion
from metastable.fields.random import common_noise
from metastable.fields.sums import Sum
from metastable.measures import Points
from metastable.measures.density import MOST, MOST_ZONAL, Density

_SHORTEST = 1e-307  # of a step of `Geodesic`; times divided by a shorter one overflow
DEEPEST = 100_000_000  # layers


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


class Geodesic(eqx.Module):
    """Steps for fields with noise: half a Brownian step, a drift step, half a Brownian step.

    Common noise (`RandomValue`) moves all tokens along geodesics: weak order 1, strong order ½.

    On the sphere a Brownian step follows the geodesic of a Gaussian tangent vector, which is exact
    on the circle and of weak order 1 elsewhere; the drift step is the explicit midpoint rule.
    `step=None` takes 2 % of the fastest time scale among drift and diffusion. A run that would
    need more than `max_steps` is refused.
    """

    step: float | None = eqx.field(static=True, converter=checks.plain_number, default=None)
    max_steps: int = eqx.field(static=True, default=100_000_000)

    def __check_init__(self) -> None:
        if self.step is not None:
            checks.positive("step", self.step)
        checks.integer("max_steps", self.max_steps, 1)

    def resolve(self, measure: Points, field: Field, sum: Sum) -> float:
        """The length of a step for this measure and field."""
        traced = is_traced(measure, field)
        common = 0.0 if traced else math.fsum(float(part.strength) for part in common_noise(field))
        if self.step is not None:
            if common * (measure.dim - 1) * self.step > 0.5:
                raise ValueError(
                    f"step must be at most {0.5 / common / (measure.dim - 1):.3g} for noise as "
                    f"strong as this in dimension {measure.dim}; got {self.step:g}: Layers(...) "
                    "are thick layers."
                )
            return float(self.step)
        if traced:
            raise ValueError("inside jit or grad, noise needs stepper=Geodesic(step=...).")
        spread = (float(diffusion(field)) + common) * max(measure.dim - 1, 1)
        # The stiffest drift is that of a token next to a cluster of all the others.
        cluster = jnp.broadcast_to(measure.points[0], measure.points.shape)
        nudge = jax.random.normal(jax.random.key(0), cluster.shape)
        velocity = lambda points: field.velocity(measure.at(points), sum=sum)
        change = jax.jvp(velocity, (cluster,), (nudge,))[1]
        stiffness = float(jnp.linalg.norm(change) / jnp.linalg.norm(nudge))
        step = 0.02 / max(1.0, stiffness, spread)
        if step < _SHORTEST:
            raise ValueError(
                f"the field must change at a finite rate next to a cluster; got a time scale of "
                f"{50 * step:.2g}: scale down its matrices or its noise."
            )
        return step


class Layers(eqx.Module):
    """The transformer as it is computed: x ← N(x + ε A(x)), ε = `step`; horizon/ε layers.

    Weights that are random in every layer, `RandomValue`, enter as √ε W m. A is the field before
    projection; N(y) = y/‖y‖ on the sphere and N(y) = y in R^d. Layer k sees
    the field at time kε. As ε → 0 at a fixed horizon the result tends to the flow, at first order.
    Tokens and Gaussians have layers; for a Gaussian see `layer_map`. A head with matrices
    Q, K, V, W and 1/√d_k is `MultiHead([SelfAttention(1/√d_k, Q, K, V)], [W])`.

    - `residual=False`: x ← N(εA(x)), without the identity.
    - `truncated=True`, for a Gaussian: Σ⁺ = Σ + ε(BΣ + ΣBᵀ), the exact layer without its term
      ε²BΣBᵀ. **Not a layer**: it loses positive definiteness when the step is too long, and the
      run then ends with the outcome "indefinite", which gives the layer and the eigenvalue.
    """

    step: float = eqx.field(static=True, converter=checks.plain_number, default=1.0)
    residual: bool = eqx.field(static=True, default=True)
    truncated: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        checks.positive("step", self.step)
        if self.truncated and not self.residual:
            raise ValueError("truncated needs the residual layer it truncates; got residual=False.")

    @property
    def name(self) -> str:
        return f"layers(step={self.step:g}{', truncated' if self.truncated else ''})"

    def depth(self, horizon: float) -> int:
        """How many layers lead to the horizon."""
        checks.positive("horizon", horizon)
        if horizon / self.step > DEEPEST * (1 + 1e-9):
            raise ValueError(
                f"depth must be at most {DEEPEST} layers; got {horizon / self.step:.3g}: shorten "
                "the horizon, or take a longer step."
            )
        depth = round(horizon / self.step)
        if depth < 1 or abs(depth * self.step - horizon) > 1e-9 * horizon:
            raise ValueError(
                f"horizon must be a whole number of layers of step {self.step:g}; got "
                f"{horizon:g}: take {max(depth, 1) * self.step:g}."
            )
        return depth


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


class Hardmax(eqx.Module):
    """The limit β → ∞ of a field, from event to event; the field's own β plays no role.

    **On the sphere**, `SelfAttention` with Q, K, V multiples of the identity. In the clock
    dt = e^{β(1−max⟨x_i,x_j⟩)}ds only the closest pair moves, along its geodesic, token i at a speed
    in proportion to α_j/α_i (SA) or α_j (USA). Meanwhile no distance to a third token shrinks as
    fast as theirs, so they meet, α_j²/(α_i²+α_j²) (SA) or α_j/(α_i+α_j) (USA) of the way from i to
    j, and the run is a list of mergers. Its clock is c = lim (log t)/β: the largest 1 − cos φ so
    far (USA: −cos φ); `log_times` and `log_waits` are in this unit too. The horizon is `math.inf`.

    **In R^d**, `Rescaled(SelfAttention(...))` with V = λ > 0 and QᵀK + KᵀQ ≥ 0:
    ż_i = λ(z_k − z_i), k = argmax_k ⟨Qz_i,Kz_k⟩. While no argmax changes,
    z_i(t) = Σ_r e^{−λt}(λt)^r/r! z_{k^r(i)}(0), k^r(i) being the argmax taken r times. A token
    within `radius` of a resting one that it moves toward is absorbed by it.

    Sources: arXiv:2410.06833 (sphere), arXiv:2305.05465 (R^d). Speeds, meeting points and the
    solution between events are derived here, checked against β = 1000 and against small steps.
    Ties go to the first token in order. `frames` as in `Merging`; given as times they are for R^d.
    Time O(n²) per merger, memory O(n²).

    >>> import math
    >>> import metastable as ms
    >>> tokens = ms.Points([[1.0, 0.0], [0.8, 0.6], [0.0, -1.0]])
    >>> run = ms.flow(tokens, ms.SelfAttention(beta=1.0), math.inf, stepper=Hardmax())
    >>> run.log_times.round(6).tolist()
    [0.0, 0.2, 1.316228]
    """

    radius: float = eqx.field(static=True, converter=checks.plain_number, default=1e-6)

    def __check_init__(self) -> None:
        checks.positive("radius", self.radius)


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
            kinds = (Adaptive, Fixed)
            checks.instance("stepper", self.stepper, kinds, "Adaptive(...) or Fixed(...)")

    def limit(self, density: Density) -> int:
        """The highest degree that this density may reach."""
        if self.most is not None:
            return self.most
        return max(MOST_ZONAL if density.zonal else MOST[density.dim], self.least)


Stepper = Adaptive | Fixed | Geodesic | Layers | Merging | Hardmax | Resolution
