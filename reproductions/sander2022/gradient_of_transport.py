"""Sinkhorn attention is a gradient, softmax is not."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.numerics import jax, jnp
from metastable.core.verdict import judge
from metastable.fields import SelfAttention, SinkhornAttention
from metastable.flows import flow
from metastable.measures import Points, gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._scaling import scalings

ENTRY = Entry(
    title="Sinkhorn attention is a gradient, softmax is not",
    places=["arXiv:2110.11773, abstract"],
    claim=(
        "With QᵀK = V symmetric, Sinkhorn attention moves tokens by a gradient in the Wasserstein "
        "metric, of an energy of entropic transport of the tokens to themselves; softmax attention "
        "does not."
    ),
    method=(
        "Tokens in R²: the derivative of all velocities by all tokens is symmetric for Sinkhorn "
        "and not for softmax; the velocity against central differences of the optimal value of "
        "the dual problem, by the algorithm written out; that energy along a flow."
    ),
    subject="normalisation",
    basis="report",
    limits=(
        "Equal masses, one symmetric positive matrix B = QᵀK = V. The form of the energy, "
        "E = −(1/2β) Σ w_i (f_i + g_i), is derived here by the envelope theorem."
    ),
    planted="SinkhornAttention.query * 1.2",
    settings={"tokens": 12, "beta": 1.5, "seeds": 3, "horizon": 0.8},
    fast={"tokens": 8, "seeds": 1},
)


def gradient_of_transport(*, tokens: int, beta: float, seeds: int, horizon: float) -> Finding:
    """Symmetry of the derivative, the gradient by differences, and the energy in time."""
    B = np.array([[1.0, 0.3], [0.3, 0.6]])
    even, odd, slope, falls, curves = [], [], [], [], {}
    for seed in range(seeds):
        measure = gaussian_points(tokens, 2, scale=0.8, seed=seed)
        x = np.asarray(measure.points)
        sinkhorn = SinkhornAttention(beta, query=B, value=B, iterations=400)
        softmax = SelfAttention(beta, query=B, value=B)
        even.append(_skewness(sinkhorn, x))
        odd.append(_skewness(softmax, x))
        step = 1e-4
        grad = np.zeros_like(x)
        for i, k in np.ndindex(*x.shape):
            shift = np.zeros_like(x)
            shift[i, k] = step
            grad[i, k] = (_energy(x + shift, beta, B) - _energy(x - shift, beta, B)) / (2 * step)
        # The gradient in the Wasserstein metric is n times that by the tokens.
        velocity = np.asarray(sinkhorn.velocity(measure))
        slope.append(np.abs(tokens * grad - velocity).max() / np.abs(velocity).max())
        run = flow(measure, sinkhorn, horizon, frames=13)
        energy = [_energy(np.asarray(f.points), beta, B) for f in run.frames]
        falls.append(np.diff(energy).min())
        curves[f"tokens {seed + 1}"] = (run.times, energy)
    rows = [
        judge("Sinkhorn: asymmetry of the derivative of the velocities, relative", "abstract", 0.0,
              float(max(even)), absolute=1e-7),
        holds("softmax: the same", "abstract", min(odd) > 0.01, "> 0.01", f"{min(odd):.3f}"),
        judge("Sinkhorn: velocity against the gradient of the energy by differences, relative",
              "derived", 0.0, float(max(slope)), absolute=1e-5),
        holds("the energy climbs along the flow: smallest step", "derived", min(falls) > 0, "> 0",
              f"{min(falls):.1e}"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("time t", clock="Sinkhorn"), "energy E",
        f"Energy of entropic transport of {tokens} tokens to themselves along Sinkhorn attention.",
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"energy": figure})


def _skewness(field: SinkhornAttention | SelfAttention, x: np.ndarray) -> float:
    flat = lambda y: field.velocity(Points(y, on_sphere=False))
    found = np.asarray(jax.jacfwd(flat)(jnp.asarray(x))).reshape(x.size, x.size)
    return float(np.linalg.norm(found - found.T) / np.linalg.norm(found))


def _energy(x: np.ndarray, beta: float, form: np.ndarray) -> float:
    """−(1/2β) times the mean of f + g."""
    f, g = scalings(beta * x @ form @ x.T, 400)
    return float(-(f.mean() + g.mean()) / (2 * beta))
