"""From many tokens to the one final cluster, over times e^{cβ}."""

from __future__ import annotations

import math
import time
from typing import Any

import diffrax
import equinox as eqx
import numpy as np

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.fields import Field, SelfAttention
from metastable.fields.attention import act
from metastable.fields.sums import Dense, Sum
from metastable.flows.album import Album
from metastable.flows.arclength import Motion, Pace, State, advance
from metastable.flows.collapse import find_collapsed, merge_collapsed
from metastable.flows.mergers import Ledger, log_difference
from metastable.flows.steppers import Adaptive, evaluations_per_step
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points

__all__ = ["Merge", "staircase"]

FEW = 512  # so few tokens are summed pair by pair
SMALLEST = 32  # up to so many share one compilation
FLOOR = 1e-7  # typical speed below which only the sum over pairs has digits left
MANY_STEPS, FEW_STEPS = 5, 500  # tried between two looks at many, and at few, tokens


class Merge(eqx.Module):
    """Tokens within `radius` (radians) that approach each other become one, at their mean.

    Replacing two tokens r apart by one changes the weight e^{β⟨x,y⟩} they have for any other by a
    relative β(β+1)r²/8 at most (derived here), and only while they would still be apart: they fall
    together like e^{−t}. The default radius is 1e−4/max(1, β‖QᵀK‖), which is 2.5e−9 in that
    measure, and 5e4 times the default tolerance of positions. Measured (400 tokens, β = 9): the
    final cluster is off by 4e−13, and by 2e−10 and 3e−8 with ten and a hundred times the radius.

    The moment of a merger is the end of the step that brought the pair within reach: sharp to a few
    times of collapse, a few units of SA time.
    """

    radius: float | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.radius is not None:
            checks.positive("radius", self.radius)


def staircase(
    measure: Points,
    field: Field,
    horizon: float = math.inf,
    *,
    merge: Merge | None = None,
    sum: Sum | None = None,
    stepper: Adaptive | None = None,
    frames: Any = 101,
    progress: bool | None = None,
) -> Trajectory:
    """Move tokens on the sphere by attention, merging them as they collapse, to the last cluster.

    Clusters of separation φ last e^{β(1−cos φ)}, up to e^{2β} in all; the energy 2βe^{−β}E and the
    number of tokens form a staircase (arXiv:2410.06833). Steps follow the distance travelled, so
    that their number hardly grows with β, and time is kept as a logarithm: any β will do.

    - `horizon`: final time; by default the run ends when all tokens are one.
    - `sum`: how the field is summed while more than 512 tokens remain and move faster than 1e−7;
      after that all pairs are summed exactly.
    - `stepper`: `Adaptive(...)`. Its tolerance rtol + atol bounds the error of a step, in positions
      times β and in time relative to the wait since the last merger.
    - `frames`: how many to keep at most, half of them spaced evenly in log t and half at the last
      mergers; or an increasing array of times, met exactly.

    The field is a `SelfAttention` without mask or positions. A value matrix keeps moving even a
    single token; without a horizon the run ends there all the same.

    The result carries `mergers` and `log_times`; `times` are infinite past 1e308. Field evaluations
    from 100 000 uniform tokens on the circle: 2400 at β = 9, 6500 at β = 100. One compilation
    serves a factor four in the number of tokens.

    >>> import metastable as ms
    >>> run = staircase(ms.uniform(tokens=50, dim=3, seed=1), ms.SelfAttention(beta=20.0))
    >>> run.frames[-1].count, run.mergers
    (1, Mergers(49, from 50 tokens to 1))
    """
    merge = Merge() if merge is None else merge
    sum = Dense() if sum is None else sum
    stepper = Adaptive() if stepper is None else stepper
    attention = _checked_field(measure, field, sum)
    _check_horizon(horizon, attention)
    climb = Climb(measure, attention, float(horizon), merge, sum, stepper, frames)
    with Bar("staircase", progress) as bar:
        try:
            while climb.outcome is None:
                climb.move()
                bar.update(1 - math.log(len(climb.x)) / math.log(max(measure.count, 2)))
        except KeyboardInterrupt:
            climb.end("interrupted", "Interrupted at {}; the frames so far are kept.")
    return climb.trajectory()


class Climb:
    """A run on its way: the tokens left, the clock, the mergers and frames so far."""

    def __init__(
        self,
        measure: Points,
        field: SelfAttention,
        horizon: float,
        merge: Merge,
        sum: Sum,
        stepper: Adaptive,
        frames: Any,
    ):
        self.began = time.perf_counter()
        self.field, self.sum, self.stepper = field, sum, stepper
        self.sharpness = _sharpness(field, measure.dim)
        self.radius = 1e-4 / self.sharpness if merge.radius is None else merge.radius
        _check_stepper(stepper, self.radius * self.sharpness)
        self.x = np.asarray(measure.points)
        self.ledger = Ledger(np.asarray(measure.weights))
        self.album = Album(frames, horizon, measure)
        self.log_epoch = -math.inf  # the last merger; the wait since then belongs to the pace
        # A value matrix moves a single token too: such a run ends at its horizon, if it has one.
        self.drifts = horizon < math.inf and field.value is not None and field.value.ndim > 0
        self.many = measure.count > FEW
        self.pace = Pace(0.1 * math.sqrt(measure.count) / self.sharpness, False, -math.inf)
        self.exact = False
        self.looks = self.steps = self.attempts = self.evaluations = 0
        self.seen = self.x, self.ledger.masses, -math.inf  # the last whole state
        self.outcome: Outcome | None = None

    @property
    def log_time(self) -> float:
        return float(np.logaddexp(self.log_epoch, self.pace.log_wait))

    def move(self) -> None:
        """Move until tokens merge or a frame is due, and see to both."""
        self.exact |= len(self.x) <= FEW
        state = self._advance()
        speed = float(state.log_speed)
        if not self.exact and not self._is_fast(speed):
            self.exact = True
            return
        if math.isnan(speed):
            self.end("blow_up", "Tokens left the range of floating point after {}.")
            return
        reached, merged = bool(state.reached), self._merge(state)
        self.seen = self.x, self.ledger.masses, self.log_time
        self.album.see(*self.seen, reached=reached, merged=merged)
        if self.album.complete:
            self.end("done", "The run reached its horizon.")
        elif len(self.x) == 1 and not self.drifts:
            self.end("done", "All tokens are one since {}.", still=True)
        elif speed == -math.inf and not merged:
            self.end("done", "No token moves any more: at {} all speeds are rounding.", still=True)
        elif self.attempts + self.looks >= self.stepper.max_steps:
            remedy = "Raise max_steps, loosen the tolerance, or shorten the horizon."
            self.end("step_limit", f"The solver tried {self.attempts} steps to {{}}. {remedy}")

    def _advance(self) -> State:
        count, dim = self.x.shape
        size = SMALLEST
        while size < count:
            size *= 4
        motion = Motion(
            field=self.field,
            weights=jnp.asarray(np.pad(self.ledger.masses, (0, size - count))),
            sharpness=jnp.asarray(self.sharpness),
            radius=jnp.asarray(self.radius),
            stepper=self.stepper,
            sum=None if self.exact else self.sum,
        )
        padding = np.repeat(np.eye(1, dim), size - count, axis=0)
        # The first look comes before the first step: tokens may start in one place.
        most = 0 if self.looks == 0 else FEW_STEPS if self.exact else MANY_STEPS
        times = self.album.log_target, self.album.log_mark
        stops = (log_difference(log_t, self.log_epoch) for log_t in times)
        state = advance(
            motion,
            jnp.asarray(np.concatenate([self.x, padding])),
            Pace(*map(jnp.asarray, self.pace)),
            *map(jnp.asarray, (*stops, most)),
        )
        self.x = np.asarray(state.x)[:count]
        self.pace = Pace(*(leaf.item() for leaf in state.pace))
        self.looks += 1
        self.steps += int(state.steps)
        self.attempts += int(state.attempts)
        self.evaluations += 1 + int(state.attempts) * evaluations_per_step(self.stepper.solver)
        return state

    def _is_fast(self, log_speed: float) -> bool:
        """Whether the typical speed stands clear of the error of the sum; False for NaN."""
        unit = 0.0 if self.field.normalized else self.sharpness
        return log_speed - unit - 0.5 * math.log(len(self.x)) > math.log(FLOOR)

    def _merge(self, state: State) -> bool:
        direction = np.asarray(state.direction)[: len(self.x)]
        label = find_collapsed(self.x, direction, self.ledger.masses, self.radius, self.looks)
        if label.max() + 1 == len(self.x):
            return False
        now, wait = self.log_time, self.pace.log_wait
        self.x = merge_collapsed(self.x, label, self.ledger, now, wait)
        # Among few tokens the fast scale went with the merger: the next to move sets out afresh.
        step, by_time = (0.1 / self.sharpness, False) if self.exact else self.pace[:2]
        self.log_epoch, self.pace = now, Pace(step, by_time, -math.inf)
        return True

    def end(self, name: str, message: str, *, still: bool = False) -> None:
        """Close the run; `{}` in the message stands for the time."""
        now = self.seen[-1]
        moment = f"t = {math.exp(now):.6g}" if now < 709 else f"log t = {now:.6g}"
        self.outcome = Outcome(name, message.format(moment))
        self.album.close(*self.seen, still=still)

    def trajectory(self) -> Trajectory:
        kept = self.album.kept
        norms = [np.linalg.norm(frame.measure.points, axis=1) for frame in kept]
        statistics = {
            "steps": self.steps,
            "rejected": self.attempts - self.steps,
            "evaluations": self.evaluations,
            "sum": f"{self.sum.name}, then exact pairs" if self.many else "exact pairs",
            "stepper": self.stepper.name,
            "radius": self.radius,
            "max_norm_drift": max(float(np.max(np.abs(norm - 1))) for norm in norms),
            "seconds": time.perf_counter() - self.began,
        }
        return Trajectory(
            times=np.array([frame.time for frame in kept]),
            frames=tuple(frame.measure for frame in kept),
            clock=self.field.clock,
            outcome=self.outcome or Outcome.done(),
            statistics=statistics,
            field=self.field,
            log_times=np.array([frame.log_time for frame in kept]),
            mergers=self.ledger.mergers(),
        )


def _checked_field(measure: Points, field: Field, sum: Sum) -> SelfAttention:
    if is_traced(measure, field):
        raise ValueError("merging cannot be traced by jit, grad or vmap: use flow(...) without it.")
    if not isinstance(field, SelfAttention) or field.position:
        raise ValueError(
            f"merging needs a SelfAttention field without mask or positions; got {field!r}: use "
            "flow(...) without it."
        )
    if not measure.on_sphere:
        raise ValueError(
            "merging needs tokens on the sphere; got tokens in R^d: use hardmax(...), or flow(...) "
            "without it."
        )
    if np.min(measure.weights) <= 0:
        raise ValueError("merging needs positive weights; got a token of weight 0: drop it.")
    # Shapes are checked here, abstractly, before anything is allocated or compiled.
    eqx.filter_eval_shape(lambda m, f: f.velocity(m, sum=sum), measure, field)
    return field


def _check_horizon(horizon: float, field: SelfAttention) -> None:
    if not horizon > 0:
        raise ValueError(f"horizon must be > 0; got {horizon}: leave it out to end at one cluster.")
    value = field.value
    repels = value is not None and value.ndim == 0 and float(value) <= 0
    if math.isinf(horizon) and repels:
        raise ValueError(f"horizon must be finite where tokens never merge; got {field!r}.")


def _check_stepper(stepper: Adaptive, reach: float) -> None:
    """`reach` is the merging radius times the sharpness."""
    solver: Any = stepper.solver
    if not (isinstance(solver, diffrax.AbstractERK) and getattr(solver.tableau, "fsal", False)):
        raise ValueError(
            "stepper must hold an explicit Runge–Kutta pair that ends on its result (Dopri8, "
            f"Dopri5, Tsit5, Bosh3); got {type(solver).__name__}."
        )
    if reach < 100 * (stepper.rtol + stepper.atol):
        raise ValueError(
            f"radius must be at least 100 (rtol + atol)/β, well above the solver's error; it is "
            f"{reach / (stepper.rtol + stepper.atol):.3g} (rtol + atol)/β: tighten the stepper."
        )


def _sharpness(field: SelfAttention, dim: int) -> float:
    """max(1, β‖QᵀK‖), the largest change of a logit per radian."""
    identity = jnp.eye(dim)
    form = act(field.query, identity) @ act(field.key, identity).T
    return max(1.0, float(field.beta) * float(np.linalg.norm(form, 2)))
