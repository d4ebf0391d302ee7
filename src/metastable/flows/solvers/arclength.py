"""Tokens followed by the distance they travel; time comes along as a logarithm.

Separated clusters have speeds e^{−cβ}, forming ones have speed 1: no clock ticks for both. Measured
by the arc length s of the whole configuration X = (x_1, …, x_n),

    dX/ds = v/‖v‖,   dt/ds = 1/‖v‖,

the motion has unit speed at every β and tends to the hardmax system as β → ∞. Where it slows down
(tokens falling into a cluster) the length still to go shrinks to nothing while time does not: if
that time counts, such a step is taken in time instead. Derived here, checked against the
two-cluster quadrature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields import SelfAttention
from metastable.fields.attention import act
from metastable.fields.field import Places
from metastable.fields.sums import Sum
from metastable.flows.solvers.steps import partial_sums, tableau
from metastable.flows.steppers import Adaptive
from metastable.geometry.sphere import project, retract
from metastable.measures import Points

BLOCK = 2**20  # numbers held at once by a sum over pairs
ROUNDING = 1e-14  # what is left of terms that cancel
LONG = 18.0  # log of a wait, in times of collapse, beside which a collapse takes no time
NEAR = 0.1  # a pair this many radii apart ends the motion; all within one radius then merge


class Motion(eqx.Module):
    """What moves the tokens, and how accurately.

    `sum=None` is the exact form over pairs, with relative accuracy at every speed.
    """

    field: SelfAttention
    weights: Float[Array, " n"]  # 0 for padding
    sharpness: Float[Array, ""]  # logits change by 1 over the distance 1/sharpness
    radius: Float[Array, ""]
    stepper: Adaptive
    sum: Sum | None

    @property
    def log_unit(self) -> Array:
        """log of the time in which a cluster of all the mass collapses."""
        return jnp.zeros(()) if self.field.normalized else -self.sharpness

    def velocity(self, x: Float[Array, "n d"]) -> tuple[Float[Array, ""], Float[Array, "n d"]]:
        """log ‖v‖ and v/‖v‖ at the retracted tokens."""
        x = retract(x)
        scale, v = _pairwise(self, x) if self.sum is None else _summed(self, self.sum, x)
        v = jnp.where(self.weights[:, None] > 0, v, 0.0)
        # Scaled twice: the square of a speed below 1e−160 would vanish.
        top = jnp.max(jnp.abs(v))
        v = v / jnp.where(top > 0, top, 1.0)
        size = jnp.sqrt(jnp.sum(v * v))
        return scale + jnp.log(top * size), v / jnp.where(size > 0, size, 1.0)


def _pairwise(motion: Motion, x: Array) -> tuple[Array, Array]:
    """A log scale m and e^{−m}v_i, v_i = P_x Σ_j p_ij V x_j over all pairs.

    For V a multiple of the identity P_x V x = 0: a token's own term is left out, not subtracted,
    since P_x of a mean that is mostly x itself leaves 1e−16 where e^{−β} is wanted. A sum whose
    terms cancel to rounding is zero: its direction would be noise.
    """
    field, w = motion.field, motion.weights
    left, right, values = (act(o, x) for o in (field.query, field.key, field.value))
    order, log_w = jnp.arange(x.shape[0]), jnp.log(w)
    own = field.value is None or field.value.ndim == 0

    def row(i: Array) -> tuple[Array, Array]:
        logits = field.beta * (right @ left[i]) + log_w
        if field.normalized:
            logits = logits - jax.nn.logsumexp(logits)
        logits = jnp.where((own & (order == i)) | (w[i] == 0), -jnp.inf, logits)
        top = jnp.max(logits)
        k = jnp.exp(logits - jnp.where(top > -jnp.inf, top, 0.0))
        pull = project(x[i], k @ values)
        size = k @ jnp.linalg.norm(values, axis=1)
        return top, jnp.where(jnp.linalg.norm(pull) > ROUNDING * size, pull, 0.0)

    tops, v = jax.lax.map(row, order, batch_size=max(1, BLOCK // x.shape[0]))
    scale = jnp.max(tops)
    scale = jnp.where(scale > -jnp.inf, scale, 0.0)
    return scale, jnp.exp(tops - scale)[:, None] * v


def _summed(motion: Motion, sum: Sum, x: Array) -> tuple[Array, Array]:
    """A log scale m and e^{−m}v by a sum with an absolute error, for speeds well above it."""
    field = motion.field
    measure = Points(x, motion.weights)
    log_mass, mean = sum.attend(field.kernel(measure, Places(x, None, own=True)), x)
    v = project(x, act(field.value, mean))
    if field.normalized:
        return jnp.zeros(()), v
    scale = jnp.max(jnp.where(motion.weights > 0, log_mass, -jnp.inf))
    return scale, jnp.exp(log_mass - scale)[:, None] * v


class Pace(NamedTuple):
    """Where the clock stands and how the next step is taken."""

    step: Any  # arc length of the next step, at the present speed
    by_time: Any  # whether that step is one of time: length / speed
    log_wait: Any  # log of the time since the last merger


class State(NamedTuple):
    """Tokens in motion."""

    x: Array  # (n, d)
    direction: Array  # (n, d), norm 1 over all tokens
    log_speed: Array
    pace: Pace
    steps: Array
    attempts: Array
    ready: Array  # whether two approaching tokens are near enough to merge
    reached: Array  # whether the time asked for is now


@eqx.filter_jit
def advance(
    motion: Motion, x: Array, pace: Pace, log_until: Array, log_pause: Array, most: Array
) -> State:
    """Move until two tokens are near, or the wait is e^log_until, or for `most` attempted steps.

    The motion also pauses at the first step past e^log_pause. A step is accepted when its error is
    below the tolerance, in position times sharpness (a relative error of the speeds) and in time
    relative to the wait. With a sum that has an error of its own the positions are held to the
    plain tolerance, in root mean square.
    """
    solver: Any = motion.stepper.solver
    # The last stage of the method is its result.
    mix, (b, b_error) = partial_sums(solver), map(jnp.asarray, tableau(solver)[2:])
    order = solver.error_order(None)
    tolerance = motion.stepper.rtol + motion.stepper.atol
    exact = motion.sum is None

    def position_error(miss: Array) -> Array:
        squares = jnp.sum(miss**2, axis=1)
        if exact:
            return motion.sharpness * jnp.sqrt(jnp.max(squares))
        return jnp.sqrt(jnp.sum(squares) / jnp.sum(motion.weights > 0))

    def step(s: State) -> State:
        g, wait = s.log_speed, s.pace.log_wait
        left = jnp.exp(g + log_until + jnp.log(-jnp.expm1(jnp.minimum(wait - log_until, 0.0))))
        left = jnp.where(jnp.isnan(left), 0.0, left)  # both −∞: asked for at the last merger
        # A motion that speeds up would reach the time asked for sooner: half a step decides.
        last = left <= jnp.where(s.pace.by_time, 1.0, 0.5) * s.pace.step
        by_time = s.pace.by_time | last
        h = jnp.where(last, left, s.pace.step)

        def stage(i, carry):
            k, q, _, _ = carry
            log_speed, u = motion.velocity(s.x + h * mix(i, k))
            k = k.at[i].set(jnp.where(by_time, jnp.exp(log_speed - g), 1.0) * u)
            q = q.at[i].set(jnp.where(by_time, 1.0, jnp.exp(g - log_speed)))
            return k, q, log_speed, u

        # k holds dX and q holds dt of each stage, both per arc length at the present speed.
        k = jnp.zeros((b.size, *s.x.shape)).at[0].set(s.direction)
        q = jnp.zeros(b.size).at[0].set(1.0)
        k, q, log_speed, u = jax.lax.fori_loop(1, b.size, stage, (k, q, g, s.direction))
        moved = retract(s.x + h * jnp.tensordot(b, k, 1))
        spent = h * (b @ q)
        now = jnp.logaddexp(wait, jnp.log(spent) - g)
        slip = jnp.abs(h * (b_error @ q))
        slip = slip / (spent + jnp.exp(wait + g) + jnp.exp(motion.log_unit + g))
        error = jnp.maximum(position_error(h * jnp.tensordot(b_error, k, 1)), slip) / tolerance
        error = jnp.where(jnp.isfinite(error) & (spent >= 0), error, jnp.inf)
        late = ~by_time & (now > log_until)
        good = (error <= 1.0) & ~late

        grown = h * jnp.clip(0.9 * error ** (-1.0 / order), 0.2, jnp.where(late, 1.0, 5.0))
        by_time_next = (log_speed < g) & (now < motion.log_unit + LONG)
        # Equal times, not equal lengths, when time is what was stepped.
        grown = jnp.where(good & by_time, grown * jnp.exp(jnp.minimum(log_speed - g, 2.0)), grown)
        grown = jnp.where(good & last, jnp.maximum(grown, s.pace.step), grown)
        near, meeting = _approach(motion, moved, u) if exact else (jnp.inf, jnp.inf)
        keep = lambda new, old: jnp.where(good, new, old)
        return State(
            x=keep(moved, s.x),
            direction=keep(u, s.direction),
            log_speed=keep(log_speed, g),
            pace=Pace(
                step=keep(jnp.where(by_time_next, grown, jnp.minimum(grown, meeting)), grown),
                # A step of length that ran past the time asked for is tried again by time.
                by_time=keep(by_time_next, s.pace.by_time | late),
                log_wait=keep(jnp.where(last, log_until, now), wait),
            ),
            steps=s.steps + good,
            attempts=s.attempts + 1,
            ready=good & (near < NEAR * motion.radius),
            reached=good & last,
        )

    def going(s: State) -> Array:
        stopped = s.ready | s.reached | (s.pace.log_wait > log_pause) | (s.attempts >= most)
        return ~stopped & jnp.isfinite(s.log_speed)

    log_speed, u = motion.velocity(x)
    if exact:
        ahead = jnp.where(pace.by_time, jnp.inf, _approach(motion, x, u)[1])
        pace = pace._replace(step=jnp.minimum(pace.step, ahead))
    zero, no = jnp.asarray(0), jnp.asarray(False)
    return jax.lax.while_loop(going, step, State(x, u, log_speed, pace, zero, zero, no, no))


def _approach(motion: Motion, x: Array, u: Array) -> tuple[Array, Array]:
    """Distance of the closest pair that approaches, and most of the arc length to a first meeting.

    Beyond the meeting the direction of motion turns round: a longer step would be wasted. Nearest
    neighbours decide, found by inner products and measured by differences, which keep the digits.
    """
    order, w = jnp.arange(x.shape[0]), motion.weights

    def row(i: Array) -> Array:
        return jnp.argmax(jnp.where((w > 0) & (order != i), x @ x[i], -jnp.inf))

    other = jax.lax.map(row, order, batch_size=max(1, BLOCK // x.shape[0]))
    e = x[other] - x
    square = jnp.sum(e * e, axis=1)
    closing = -jnp.sum(e * (u[other] - u), axis=1)  # −D dD/ds of the distance D
    pair = (w > 0) & (w[other] > 0) & (other != order)
    near = jnp.where(pair & (closing >= 0), square, jnp.inf)
    meeting = jnp.where(pair & (closing > 0), square / closing, jnp.inf)
    return jnp.sqrt(jnp.min(near)), 0.9 * jnp.min(meeting)
