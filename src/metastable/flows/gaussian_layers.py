"""A Gaussian in discrete depth: the exact residual layer, and its first-order truncation."""

from __future__ import annotations

import time
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.fields import Field
from metastable.flows.affine import affine_velocity
from metastable.flows.trajectory import Trajectory
from metastable.measures import Gaussian

__all__ = ["gaussian_layers", "layer_map"]


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


def gaussian_layers(
    measure: Gaussian,
    field: Field,
    depth: int,
    step: float = 1.0,
    *,
    residual: bool = True,
    truncated: bool = False,
    frames: int | None = None,
    progress: bool | None = None,
) -> Trajectory[Gaussian]:
    """Apply `depth` attention layers to a Gaussian; layer k sees the field at time kε, ε = `step`.

    The exact layer is `layer_map`. It keeps the covariance positive definite whenever I + εB is
    invertible. For a head with matrices Q, K, V, W and 1/√d_k write
    `MultiHead([SelfAttention(1/√d_k, Q, K, V)], [W])`.

    - `residual=False`: x ↦ ε(c + Bx), without the identity.
    - `truncated=True`: Σ⁺ = Σ + ε(BΣ + ΣBᵀ), the exact layer without its term ε²BΣBᵀ. **Not a
      layer**: it loses positive definiteness when the step is too long, and the run then ends with
      the outcome "indefinite", which gives the layer and the eigenvalue.
    - `frames`: how many layers to keep, all of them by default.

    A covariance that leaves the range of floating point ends the run with "blow_up" and its layer.

    >>> import metastable as ms
    >>> run = gaussian_layers(Gaussian([0.0], [[1.0]]), ms.SelfAttention(beta=1.0), depth=20)
    >>> run.outcome.name, run.statistics["steps"]
    ('blow_up', 6)
    """
    checks.instance("measure", measure, Gaussian, "Gaussian(...)")
    checks.instance("field", field, Field, "a field")
    checks.integer("depth", depth, 1)
    checks.positive("step", step)
    if truncated and not residual:
        raise ValueError("truncated needs the residual layer it truncates; got residual=False.")
    kept = depth + 1 if frames is None else min(checks.integer("frames", frames, 2), depth + 1)
    checks.fits_memory(
        f"keeping {kept} covariances of dimension {measure.dim}",
        1.0 * kept * measure.factor.size,
        "pass frames=... to keep fewer",
    )
    stride = -(-depth // (kept - 1))
    began, done, outcome = time.perf_counter(), 0, Outcome.done()
    now, album = measure, {0: measure}
    with Bar("layers", progress) as bar:
        try:
            for k in range(depth):
                # A hair past kε, off the wrong side of a switch; arrays, so that nothing is
                # compiled anew at each layer.
                t = jnp.asarray((k + 1e-9) * step)
                if truncated:
                    found = _truncated(now, field, jnp.asarray(step), t, k + 1)
                else:
                    found = _exact(now, field, jnp.asarray(step), t, residual, k + 1)
                if isinstance(found, Outcome):
                    outcome = found
                    break
                now, done = found, k + 1
                if done % stride == 0 or done == depth:
                    album[done] = now
                bar.update(done / depth)
        except KeyboardInterrupt:
            outcome = Outcome.interrupted(done * step)
    album[done] = now  # the last state is kept however the run ended
    name = f"layers(step={step:g}{', truncated' if truncated else ''})"
    return Trajectory(
        times=np.array(sorted(album)) * float(step),
        frames=tuple(album[k] for k in sorted(album)),
        clock=field.clock or "none",
        outcome=outcome,
        statistics={
            "steps": done,
            "evaluations": done,
            "stepper": name,
            "seconds": time.perf_counter() - began,
        },
        field=field,
    )


_layer = eqx.filter_jit(layer_map)


def _exact(
    now: Gaussian, field: Field, step: Array, t: Array, residual: bool, layer: int
) -> Gaussian | Outcome:
    mean, factor = _layer(now.mean, now.factor, field, step, t, residual)
    # The covariance leaves the floating-point range long before its factor does.
    if not jnp.isfinite(jnp.sum(factor**2) + jnp.sum(mean**2)):
        return _diverged(layer)
    return Gaussian.from_factor(mean, factor)


@eqx.filter_jit
def _first_order(
    mean: Array, factor: Array, field: Field, step: Array, t: Array
) -> tuple[Array, Array]:
    offset, linear = affine_velocity(field, mean, factor, t)
    cov = factor @ factor.T
    turned = linear @ cov
    return mean + step * (offset + linear @ mean), cov + step * (turned + turned.T)


def _truncated(
    now: Gaussian, field: Field, step: Array, t: Array, layer: int
) -> Gaussian | Outcome:
    mean, cov = _first_order(now.mean, now.factor, field, step, t)
    if not jnp.isfinite(jnp.sum(cov) + jnp.sum(mean**2)):
        return _diverged(layer)
    try:
        return Gaussian(mean, cov)
    except ValueError:
        values = np.linalg.eigvalsh(np.asarray(cov))
        return Outcome(
            "indefinite",
            f"The truncated map lost positive definiteness at layer {layer}: eigenvalues from "
            f"{values[0]:.3g} to {values[-1]:.3g}. It is no covariance; use the exact layer "
            "(truncated=False) or a smaller step.",
        )


def _diverged(layer: int) -> Outcome:
    return Outcome(
        "blow_up",
        f"The covariance left the range of floating point at layer {layer}. Take a smaller step, "
        "fewer layers, or smaller matrices.",
    )
