"""A Gaussian in discrete depth: the exact residual layer, and its first-order truncation."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.numerics import is_traced, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.flows.solvers.affine import affine_velocity
from metastable.flows.solvers.frames import Frame
from metastable.flows.solvers.solver import Choices, Solver
from metastable.flows.solvers.token_layers import kept_layers
from metastable.flows.steppers import Layers
from metastable.measures import Gaussian


def layer_map(
    mean: Array, factor: Array, field: Field, step: Any = 1.0, t: Any = 0.0, residual: bool = True
) -> tuple[Array, Array]:
    """One attention layer on N(m, LLᵀ), as (m, L) ↦ (m⁺, L⁺): exact, and differentiable.

    x ↦ x + ε(c + Bx) gives m⁺ = m + ε(c + Bm), L⁺ = (I + εB)L, so Σ⁺ = (I+εB)Σ(I+εB)ᵀ; for one
    softmax head c = WVm and B = WVΣKᵀQ/√d_k. `residual=False` leaves out the identity.

    Source: Castin, Ablin, Carrillo, Peyré, arXiv:2501.18322. In one dimension with unit matrices
    m⁺ = (2 + σ²)m and σ⁺² = (1 + σ²)²σ².

    >>> import metastable as ms
    >>> mean, factor = layer_map(jnp.ones(1), jnp.ones((1, 1)), ms.SelfAttention(beta=1.0))
    >>> float(mean[0]), float(factor[0, 0] ** 2)
    (3.0, 4.0)
    """
    offset, linear = affine_velocity(field, mean, factor, t)
    moved, spread = step * (offset + linear @ mean), step * (linear @ factor)
    return (mean + moved, factor + spread) if residual else (moved, spread)


class GaussianLayers(Solver):
    """Attention layers on a Gaussian, one a call; see `Layers` and `layer_map`.

    The exact layer keeps the covariance positive definite whenever I + εB is invertible. A
    covariance that leaves the range of floating point ends the run with "blow_up" and its layer.

    >>> import metastable as ms
    >>> start, field = Gaussian([0.0], [[1.0]]), ms.SelfAttention(beta=1.0)
    >>> run = ms.flow(start, field, 20.0, stepper=ms.Layers())
    >>> run.outcome.name, run.statistics["steps"]
    ('blow_up', 6)
    """

    def __init__(self, measure: Gaussian, field: Field, horizon: float, how: Choices):
        stepper: Layers = how.stepper
        if is_traced(measure, field):
            raise ValueError(
                "layers of a Gaussian cannot be traced by jit, grad or vmap: use layer_map(...)."
            )
        self.field, self.stepper = field, stepper
        self.depth = stepper.depth(horizon)
        what = f"covariances of dimension {measure.dim}"
        self.stride = kept_layers(self.depth, how.frames, 1.0 * measure.factor.size, what)
        self.measure = self.now = measure
        self.done, self.kept = 0, [Frame.at(0.0, measure)]

    def start(self) -> None:
        """Nothing: the first layer is like the others."""

    @property
    def share(self) -> float:
        return self.done / self.depth

    def advance(self) -> list[Frame]:
        how, now, step = self.stepper, self.now, jnp.asarray(self.stepper.step)
        # A hair past kε, off the wrong side of a switch; arrays, so that nothing is compiled anew
        # at each layer.
        t, layer = jnp.asarray((self.done + 1e-9) * how.step), self.done + 1
        if how.truncated:
            mean, spread = _first_order(now.mean, now.factor, self.field, step, t)
            size = jnp.sum(spread)
        else:
            mean, spread = _layer(now.mean, now.factor, self.field, step, t, how.residual)
            size = jnp.sum(spread**2)
        # The covariance leaves the floating-point range long before its factor does.
        if not jnp.isfinite(size + jnp.sum(mean**2)):
            self.outcome = Outcome(
                "blow_up",
                f"The covariance left the range of floating point at layer {layer}. Take a smaller "
                "step, fewer layers, or smaller matrices.",
            )
            return self._keep_last()
        try:
            self.now = (Gaussian if how.truncated else Gaussian.from_factor)(mean, spread)
        except ValueError:
            values = np.linalg.eigvalsh(np.asarray(spread))
            self.outcome = Outcome(
                "indefinite",
                f"The truncated map lost positive definiteness at layer {layer}: eigenvalues from "
                f"{values[0]:.3g} to {values[-1]:.3g}. It is no covariance; use the exact layer "
                "(truncated=False) or a smaller step.",
            )
            return self._keep_last()
        self.done = layer
        if self.done == self.depth:
            self.outcome = Outcome.done()
        due = self.done % self.stride == 0 or self.done == self.depth
        return self._keep_last() if due else []

    def _keep_last(self) -> list[Frame]:
        """The last state is kept however the run ends."""
        time = self.done * float(self.stepper.step)
        if time == self.kept[-1].time:
            return []
        self.kept.append(Frame.at(time, self.now))
        return self.kept[-1:]

    def end(self) -> None:
        self.outcome = Outcome.interrupted(self.done * self.stepper.step)
        self._keep_last()

    def statistics(self) -> dict[str, Any]:
        return {"steps": self.done, "evaluations": self.done, "stepper": self.stepper.name}


_layer = eqx.filter_jit(layer_map)


@eqx.filter_jit
def _first_order(
    mean: Array, factor: Array, field: Field, step: Array, t: Array
) -> tuple[Array, Array]:
    offset, linear = affine_velocity(field, mean, factor, t)
    cov = factor @ factor.T
    turned = linear @ cov
    return mean + step * (offset + linear @ mean), cov + step * (turned + turned.T)
