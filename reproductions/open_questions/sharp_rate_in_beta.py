"""Is √(log β/β) the true rate of the low-temperature limit?"""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import wasserstein
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ..bungert2026._cold import BILINEAR, VALUE, frozen_flow, smooth_start

ENTRY = Entry(
    title="Is √(log β/β) the true rate of the low-temperature limit?",
    places=["arXiv:2605.10931, abstract", "asked here"],
    claim=(
        "Numerically no for smooth densities: at a fixed time the Wasserstein distance between "
        "attention at β and at β = ∞ falls like 1/β, faster than the bound of order √(log β/β)."
    ),
    method=(
        "Tokens at the quantiles of a smooth density on the circle, and for comparison of one with "
        "a jump: W₂ to SciPy's flow at β = ∞ at fixed times, exponent of β with four standard "
        "errors of the fit, and the same with half the tokens."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "One pair of matrices, β from 20 to 160 and t up to 1.5, while tokens are dense. The bound "
        "is for all densities of its class and may be sharp for rough ones: a jump gives a smaller "
        "exponent here. That Laplace's method gives 1/β for smooth densities is our expectation."
    ),
    implies=("log_beta_window",),
    planted="SelfAttention.value * 1.02",
    settings={"tokens": 1000, "betas": [20.0, 40.0, 80.0, 160.0], "times": [0.5, 1.0, 1.5]},
    fast={"tokens": 400, "betas": [20.0, 40.0, 80.0]},
)


def sharp_rate_in_beta(*, tokens: int, betas: list[float], times: list[float]) -> Finding:
    """Exponents of β for a smooth density and for one with jumps."""
    when = np.concatenate([[0.0], times])
    starts = {
        "smooth": smooth_start(tokens),
        "smooth, half the tokens": smooth_start(tokens // 2),
        "with jumps": _jumps(tokens),
    }
    slopes, spreads, curves = {}, {}, {}
    for name, x in starts.items():
        cold = frozen_flow(x, when, VALUE, BILINEAR)
        off = np.zeros((len(betas), len(times)))
        for k, beta in enumerate(betas):
            field = SelfAttention(beta, query=BILINEAR, value=VALUE)
            run = flow(Points(x), field, times[-1], frames=when)
            off[k] = [
                wasserstein(run.frames[j + 1], Points(cold[j + 1])) for j in range(len(times))
            ]
        fits = [np.polyfit(np.log(betas), np.log(off[:, j]), 1)[0] for j in range(len(times))]
        slopes[name], spreads[name] = float(np.mean(fits)), float(np.std(fits))
        curves[name] = (betas, off[:, 1])
    rows = [
        judge("smooth density: exponent of β, mean over times", "asked here", -1.0,
              slopes["smooth"], absolute=0.15),
        judge("the same with half the tokens", "asked here", slopes["smooth"],
              slopes["smooth, half the tokens"], absolute=0.05),
        holds("so below −1/2 by more than four spreads over times", "asked here",
              slopes["smooth"] < -0.5 - 4 * spreads["smooth"], "< −1/2",
              f"{slopes['smooth']:.3f} ± {spreads['smooth']:.3f}"),
        holds("a density with jumps: exponent nearer to −1/2", "asked here",
              slopes["smooth"] < slopes["with jumps"], f"above {slopes['smooth']:.3f}",
              f"{slopes['with jumps']:.3f} ± {spreads['with jumps']:.3f}"),
    ]  # fmt: skip
    bound = np.sqrt(np.log(betas) / np.array(betas))
    scale = curves["smooth"][1][0] / bound[0]
    figure = plot_lines(
        curves, Axis("β", scale="log"),
        Axis("$W_2$ to β = ∞ (radians)", scale="log"),
        f"Distance at t = {times[1]:g} (SA clock) of {tokens} tokens; dashed: two laws.",
        theory={"√(log β/β)": (betas, scale * bound),
                "1/β": (betas, curves["smooth"][1][0] * betas[0] / np.array(betas))},
    )  # fmt: skip
    return Finding(rows, {"rates": figure})


def _jumps(tokens: int) -> np.ndarray:
    """Quantiles of a density that is three times as large on one half of the circle."""
    share = (np.arange(tokens) + 0.5) / tokens
    angle = np.where(share < 0.75, share / 0.75 * np.pi, np.pi + (share - 0.75) / 0.25 * np.pi)
    return np.stack([np.cos(angle + 0.4), np.sin(angle + 0.4)], axis=1)
