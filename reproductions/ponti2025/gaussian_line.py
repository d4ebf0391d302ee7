"""A Gaussian on the line stays Gaussian."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jnp
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows.solvers.gaussian_layers import layer_map
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._quadrature import hermite_rule

ENTRY = Entry(
    title="A Gaussian on the line stays Gaussian",
    places=["section 3.2, one dimension", "Definition A.3"],
    claim=(
        "Attention with unit matrices maps N(μ, σ²) affinely, x to (1 + σ²)x + μ, so that the "
        "new mean is (2 + σ²)μ and the new variance (1 + σ²)²σ²."
    ),
    method=(
        "Genuine softmax attention among weighted quadrature tokens of several Gaussians, "
        "against the formulas; our layer on Gaussians against them too."
    ),
    subject="Gaussian",
    basis="text",
    limits="Three means and three deviations, by 64-point quadrature; unit matrices.",
    contradicts=("dependent_sums",),
    planted="SelfAttention.beta * 1.01",
    settings={"means": [0.0, 0.7, -1.3], "deviations": [0.3, 0.7, 1.0], "order": 64},
)


def gaussian_line(*, means: list[float], deviations: list[float], order: int) -> Finding:
    """One-dimensional attention on a Gaussian, by quadrature, against the affine closed form."""
    mean_off, spread_off, line_off, code_off, curves, theory = 0.0, 0.0, 0.0, 0.0, {}, {}
    for mean in means:
        for deviation in deviations:
            x, w = hermite_rule(mean, deviation, order)
            tokens = Points(x[:, None], w, on_sphere=False)
            # Only places near the bulk: the farthest nodes carry no mass and see only themselves.
            near = np.abs(x - mean) < 3 * deviation
            moved = x + np.asarray(SelfAttention(1.0).velocity(tokens))[:, 0]
            affine = (1 + deviation**2) * x + mean
            line_off = max(line_off, np.abs(moved - affine)[near].max())
            first = w @ moved
            spread = w @ (moved - first) ** 2
            wanted = (2 + deviation**2) * mean, (1 + deviation**2) ** 2 * deviation**2
            mean_off = max(mean_off, abs(first - wanted[0]) / max(abs(wanted[0]), 1.0))
            spread_off = max(spread_off, abs(spread / wanted[1] - 1))
            m, factor = layer_map(jnp.array([mean]), jnp.array([[deviation]]), SelfAttention(1.0))
            closed = float(m[0]), float(factor[0, 0]) ** 2
            code_off = max(code_off, *(abs(a - b) for a, b in zip(closed, wanted, strict=True)))
            if mean == means[-1]:
                name = f"σ = {deviation:g}"
                curves[name] = (x[near], moved[near])
                theory[f"(1 + σ²)x + μ, {name}"] = (x[near], affine[near])
    rows = [
        judge("attention maps x to (1 + σ²)x + μ: largest error", "section 3.2", 0.0,
              float(line_off), absolute=1e-10),
        judge("μ_T = (2 + σ²)μ: largest relative error", "section 3.2", 0.0, float(mean_off),
              absolute=1e-10),
        judge("σ_T² = (1 + σ²)²σ²: largest relative error", "section 3.2", 0.0, float(spread_off),
              absolute=1e-10),
        judge("our layer against both formulas: largest error", "castin2025unified", 0.0, code_off,
              absolute=1e-12),
    ]  # fmt: skip
    figure = plot_lines(
        curves,
        "x",
        "Γ(x)",
        f"Softmax attention among {order} quadrature tokens of N({means[-1]:g}, σ²): points, and "
        "the affine maps.",
        theory=theory,
    )
    return Finding(rows, {"maps": figure})
