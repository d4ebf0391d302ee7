"""The corrected equation of thin layers, and what the norm adds to it."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from metastable import uniform
from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.fields.field import Places
from metastable.fields.sums import Dense
from metastable.geometry.sphere import project, retract
from metastable.measures import Points
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="The corrected equation of thin layers, and what the norm adds to it",
    places=["arXiv:2604.01978, after Theorem weak_error_clean, as formalised"],
    claim=(
        "The drift b − (η/2)∇_b b follows layers x ← N(x + ηv) to order η max(η, α) at the layers; "
        "with weights that do not vary, to order η²."
    ),
    method=(
        "Layers of one fixed head against flows with the stated drift, by Runge and Kutta's rule; "
        "orders of the errors as slopes, at layers and half way between them."
    ),
    known="disagree",
    correction=(
        "v has a part along x, which the norm turns into a slower step: the drift needs −η⟨x,v⟩b "
        "too. With it the order is 2 at the layers; between them it is 1 for a path that waits."
    ),
    subject="random depth",
    basis="report",
    limits=(
        "The statement was read in a public formalisation, which already takes back the rate "
        "between layers. Weights that do not vary (α = 0) only, one start."
    ),
    planted="layers_of.eta * 1.02",
    settings={"tokens": 4, "dim": 3, "beta": 1.0, "horizon": 1.0, "depths": [8, 16, 32, 64, 128]},
    fast={"depths": [16, 32, 64]},
)


def modified_equation(
    *, tokens: int, dim: int, beta: float, horizon: float, depths: list[int]
) -> Finding:
    """Slopes of the largest displacement against η."""
    field, start = SelfAttention(beta), jnp.asarray(uniform(tokens, dim, seed=4).points)
    etas = horizon / np.array(depths)
    errors = {"b": [], "b − (η/2)∇_b b": [], "and −η⟨x,v⟩b": [], "half way between layers": []}
    for depth, eta in zip(depths, etas, strict=True):
        eta = jnp.asarray(eta)
        x = layers_of(field, start, eta, jnp.asarray(depth))
        # The path of layers waits between them, the flow goes on.
        cases = [(0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0), (0.5, 1.0, 1.0)]
        flows = [
            _flow(field, start, eta, horizon + late * eta, jnp.asarray(curved), jnp.asarray(radial))
            for late, curved, radial in cases
        ]
        for name, y in zip(errors, flows, strict=True):
            errors[name].append(float(jnp.abs(x - y).max()))
    slopes = [float(np.polyfit(np.log(etas), np.log(error), 1)[0]) for error in errors.values()]
    claims = [
        (1, 2.0, "at layers, drift b − (η/2)∇_b b", "after Theorem weak_error_clean"),
        (0, 1.0, "at layers, drift b", "Theorem weak_error_clean"),
        (2, 2.0, "at layers, drift b − (η/2)∇_b b − η⟨x,v⟩b", "derived"),
        (3, 1.0, "half way between layers, the same drift", "derived"),
    ]
    rows = [
        judge(f"order of the error in η, {where}", source, order, slopes[k], absolute=0.2)
        for k, order, where, source in claims
    ]
    series = [
        Series(name, etas, error, style="both", group=k)
        for k, (name, error) in enumerate(errors.items())
    ]
    axes = Axis("η, time a layer (SA clock)", scale="log"), Axis("largest error", scale="log")
    return Finding(rows, {"orders": Lines(*axes, series)})


@eqx.filter_jit
def layers_of(field: SelfAttention, x: jax.Array, eta: jax.Array, depth: jax.Array) -> jax.Array:
    """Tokens after so many layers x ← N(x + ηv)."""
    move = lambda _, x: retract(x + eta * _velocity(field, x))
    return jax.lax.fori_loop(0, depth, move, x)


def _velocity(field: SelfAttention, x: jax.Array) -> jax.Array:
    """v before it is projected: the mean of what a token sees."""
    weights = jax.nn.softmax(field.beta * x @ x.T, axis=1)
    return weights @ x


@eqx.filter_jit
def _flow(
    field: SelfAttention, x: jax.Array, eta: jax.Array, horizon: jax.Array, curved: Any, radial: Any
) -> jax.Array:
    """Tokens under b − curved (η/2)∇_b b − radial η⟨x,v⟩b at a time, b = P_x v."""
    b = lambda x: project(x, field.drift(Points(x), Places(x, None, own=True), 0.0, Dense()))

    def drift(x: jax.Array) -> jax.Array:
        along = jnp.sum(x * _velocity(field, x), axis=1, keepdims=True)
        here, turn = jax.jvp(b, (x,), (b(x),))
        return here - curved * eta / 2 * project(x, turn) - radial * eta * along * here

    h = horizon / 200

    def step(_: int, x: jax.Array) -> jax.Array:
        k1 = drift(x)
        k2 = drift(x + h / 2 * k1)
        k3 = drift(x + h / 2 * k2)
        return retract(x + h / 6 * (k1 + 2 * k2 + 2 * k3 + drift(x + h * k3)))

    return jax.lax.fori_loop(0, 200, step, x)
