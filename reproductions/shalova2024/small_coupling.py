"""Under strong noise nothing but uniform rests."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.branches import transition
from metastable.theory.spectrum import growth_rates

ENTRY = Entry(
    title="Under strong noise nothing but uniform rests",
    places=["arXiv:2412.14813: uniqueness for small coupling"],
    claim=(
        "For coupling small enough the uniform density is the only stationary one; for "
        "unnormalised attention κ < β/sinh β suffices on every sphere, as f → e^{κW∗f}/∫ then "
        "contracts total variation by κ sinh β/β at least."
    ),
    method=(
        "Contraction of random pairs of densities on the circle by a double sum; the bound against "
        "the first ordered state by continuation; a run from a narrow start and its late decay."
    ),
    subject="noise",
    basis="derived",
    limits=(
        "The constant is ours, and far from sharp at large β and d. The paper's, from curvature, "
        "was not seen."
    ),
    planted="Noise.kappa * 1.3",
    settings={"betas": [0.5, 1.0, 2.0, 4.0, 6.0], "dims": [2, 3, 8], "pairs": 400, "run": 2.0},
    fast={"betas": [1.0, 4.0], "dims": [2, 8], "pairs": 100},
)


def small_coupling(*, betas: list[float], dims: list[int], pairs: int, run: float) -> Finding:
    """Contraction of the fixed-point map, and where order begins."""
    random = np.random.default_rng(3)
    theta = 2 * np.pi * np.arange(256) / 256
    rows, ratios = [], []
    for beta in betas:
        kernel = np.exp(beta * np.cos(theta[:, None] - theta)) / beta / 256
        kappa, worst = beta / np.sinh(beta), 0.0
        for _ in range(pairs):
            f, g = (_image(_random(random, theta), kernel * 0, 0.0) for _ in range(2))
            before = np.abs(f - g).mean()
            after = np.abs(_image(f, kernel, kappa) - _image(g, kernel, kappa)).mean()
            worst = max(worst, float(after / before))
        ratios.append(worst)
        rows.append(holds(f"β = {beta:g}, κ = β/sinh β: largest growth of a distance in {pairs} "
                          "pairs", "contraction", worst < 1, "< 1", f"{worst:.3f}"))  # fmt: skip
    series = [Series("β/sinh β", betas, np.array(betas) / np.sinh(betas), role="theory")]
    for dim in dims:
        first = [transition(beta, dim, normalized=False).kappa_ordered for beta in betas]
        margin = float(min(np.array(first) * np.sinh(betas) / betas))
        rows.append(holds(f"d = {dim}: first ordered κ over the bound, least over β", "uniqueness",
                          margin > 1, "> 1", f"{margin:.3f}"))  # fmt: skip
        series.append(Series(f"first ordered state, d = {dim}", betas, first, style="both"))
    kappa, dim = 0.95 * run / np.sinh(run), 2
    field = SelfAttention(run, normalized=False) + Noise(kappa)
    moved = flow(Density.von_mises_fisher([1.0, 0.0], 20.0), field, 12 * kappa, frames=13)
    size = np.array([abs(complex(frame.coefficients[1])) for frame in moved.frames])
    rate = float(np.log(size[10] / size[8]) / (moved.times[10] - moved.times[8]))
    exact = float(growth_rates(run, dim, 1, normalized=False, kappa=kappa)[0])
    # By then the alignment is e^{−8·0.7}; its square enters the rate.
    rows.append(judge(f"β = {run:g}: late rate of a narrow start at 0.95 β/sinh β", "derived",
                      exact, rate, relative=5e-3))  # fmt: skip
    figure = Lines(Axis("β"), Axis("κ", scale="log"), series,
                   caption="Below the dashed line uniform is alone on every sphere.")  # fmt: skip
    return Finding(rows, {"bound": figure})


def _random(random: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    """An exponent: harmonics to degree 5, or a few narrow peaks."""
    if random.random() < 0.5:
        k = np.arange(1, 6)[:, None]
        return (random.normal(size=5) * 2) @ np.cos(k * theta - random.uniform(0, 7, (5, 1)))
    centres = random.uniform(0, 2 * np.pi, (random.integers(1, 4), 1))
    return np.log(np.exp(40 * (np.cos(theta - centres) - 1)).sum(axis=0) + 1e-9)


def _image(f: np.ndarray, kernel: np.ndarray, kappa: float) -> np.ndarray:
    """e^{κW∗f}/∫, or at κ = 0 the density of which f is the exponent."""
    log_f = kappa * (kernel @ f) if kappa else f
    new = np.exp(log_f - log_f.max())
    return new / new.mean()
