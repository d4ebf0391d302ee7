"""Phase diagrams over time and β, and the long-lived states they show."""

from __future__ import annotations

import math

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Merge, flow
from metastable.flows.ensemble import Angles, Form, Gram, Tokens, sample_ensemble
from metastable.measures import Points, uniform
from metastable.numerics import jnp
from metastable.observe import kernel_modes
from metastable.reproduce.finding import Finding, holds
from metastable.theory.equiangular import phase_curve
from metastable.theory.pairs import merge_time

__all__ = ["circle_diagrams", "metastable_state", "phase_map", "special_matrices"]

NEAR = 1e-3  # ⟨x_1,x_2⟩ ≥ 1 − δ counts as one cluster


def phase_map(*, tokens: int, dims: list[int], samples: int, betas: int, horizon: float) -> Finding:
    """P(⟨x_1,x_2⟩ ≥ 1 − δ) over time and β, against the curve of orthogonal tokens."""
    from metastable.report.plots import draw_image, draw_lines

    frames, levels = 61, np.linspace(0.25, 9, betas)
    times = np.linspace(0, horizon, frames)
    curve = phase_curve(levels, tokens, NEAR)
    figures, shifts = {}, []
    for dim in dims:
        form = Angles if dim == 2 else Gram
        share = np.array(
            [_share(form(jnp.asarray(b)), samples, tokens, dim, horizon, frames) for b in levels]
        )
        figures[f"d{dim}"] = draw_image(
            share, (0, horizon, levels[0], levels[-1]), "time t (SA clock)", "β",
            "P(⟨x₁,x₂⟩ ≥ 1 − δ)", f"d = {dim}: share of {samples} starts of {tokens} tokens.",
            curves={"Γ_∞": (curve[curve < horizon], levels[curve < horizon])},
        )  # fmt: skip
        half = np.array([np.interp(0.5, row, times) if row[-1] > 0.5 else np.nan for row in share])
        seen = np.isfinite(half) & (curve < 0.9 * horizon)
        shifts.append(float(np.abs(half - curve)[seen].mean()) if seen.any() else np.inf)
    rows = [
        judge(
            f"time at which half the starts are one cluster, minus Γ_∞, d = {dims[-1]}",
            "Figure 16, equation 46", 0.0, shifts[-1], absolute=2 * horizon / (frames - 1),
        ),
        holds(
            "the shift falls as d grows", "Theorem 8", all(np.diff(shifts) < 0), "falls",
            ", ".join(f"{one:.2f}" for one in shifts),
        ),
    ]  # fmt: skip
    figures["shift"] = draw_lines(
        {"mean distance": (dims, shifts)}, "dimension d", "time", log="xy",
        caption="Mean distance of the half-way contour from Γ_∞ (SA clock).",
    )  # fmt: skip
    return Finding(rows, figures)


def circle_diagrams(*, tokens: int, betas: list[float], starts: int, horizon: float) -> Finding:
    """Tokens on the circle at two β: a few clusters that stay, more of them at the larger β."""
    from metastable.report.angles import draw_angles
    from metastable.report.plots import draw_lines

    figures, curves, gains = {}, {}, []
    times = np.linspace(0, horizon, 61)
    for beta in betas:
        together = _share(Angles(jnp.asarray(beta)), starts, tokens, 2, horizon, 61)
        curves[f"β = {beta:g}"] = (times, together)
        gains.append(float(together[-1] - np.interp(horizon / 3, times, together)))
        run = flow(uniform(tokens, 2, seed=4), SelfAttention(beta), horizon, frames=121)
        figures[f"beta{beta:g}"] = draw_angles(run)
    low, high = (float(curve[1][-1]) for curve in curves.values())
    rows = [
        holds(
            f"share of pairs together at t = {horizon:g}", "Figure 17", low > high + 0.1,
            f"more at β = {betas[0]:g} than at {betas[-1]:g}", f"{low:.2f} and {high:.2f}",
        ),
        holds(
            "change of that share over the last two thirds", "Figure 17", max(gains) < 0.1,
            "below 0.1: the clusters stay", " and ".join(f"{gain:.2f}" for gain in gains),
        ),
    ]  # fmt: skip
    figures["together"] = draw_lines(
        curves, "time t (SA clock)", "share of pairs together", lines=True,
        caption=f"{starts} starts of {tokens} tokens on the circle.",
    )  # fmt: skip
    return Finding(rows, figures)


def metastable_state(
    *, tokens: int, beta: float, angle: float, betas: list[float], late: list[float]
) -> Finding:
    """Large β: several clusters form fast and stay for a time exponential in β."""
    from metastable.report.plots import draw_lines

    run = flow(uniform(tokens, 2, seed=0), SelfAttention(beta), 60.0, frames=61)
    counts = np.array([len(kernel_modes(frame, beta).masses) for frame in run.frames])
    held = counts[run.times >= 15]
    pair = Points([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    lives, expected = [], [merge_time(angle, one) for one in betas]
    for one, life in zip(betas, expected, strict=True):
        merged = flow(pair, SelfAttention(one), 1.5 * life, frames=401)
        cosines = np.array([x[0] @ x[1] for x in merged.points])
        lives.append(float(np.interp(1 - NEAR, cosines, merged.times)))
    # Past β ≈ 20 the lifetime outgrows any fixed step: the staircase steps in its logarithm.
    ends = [flow(pair, SelfAttention(one), math.inf, merge=Merge()).times[-1] for one in late]
    slope = np.polyfit(late, np.log(ends), 1)[0]
    rows = [
        holds(
            f"β = {beta:g}: more than one cluster, fewer than tokens, unchanged for 45 units",
            "Problem 9, Open Question 2", 1 < held.min() == held.max() < tokens, "a plateau",
            f"{held.max()} clusters" if held.min() == held.max() else "the count changes",
        ),
        judge(
            "lifetime of a pair against the integral, largest relative error",
            "geshkovski2024dynamic", 0.0,
            float(np.abs(np.array(lives) / expected - 1).max()), absolute=0.02,
        ),
        judge(
            f"exponent of the lifetime in β, from {late[0]:g} to {late[-1]:g}",
            "1 − cos of the angle", 1 - np.cos(angle), slope, absolute=0.05,
        ),
    ]  # fmt: skip
    figures = {
        "counts": draw_lines(
            {"seen": (run.times, counts)}, "time t (SA clock)", "clusters", lines=True,
            caption=f"Maxima of the potential, {tokens} tokens on the circle, β = {beta:g}.",
        ),
        "lifetimes": draw_lines(
            {"runs": (betas, lives), "runs to the merger": (late, ends)}, "β",
            "lifetime (SA clock)", log="y",
            caption=f"Two clusters {angle:.2g} radians apart: time until they are one.",
            theory={"integral": (betas + late, [merge_time(angle, b) for b in betas + late])},
        ),
    }  # fmt: skip
    return Finding(rows, figures)


def special_matrices(*, tokens: int, dim: int, samples: int, betas: int, horizon: float) -> Finding:
    """The same diagram when query, key or value are random: what survives of it."""
    from metastable.report.plots import draw_image

    random = np.random.default_rng(5)
    draw = lambda: random.normal(size=(dim, dim)) / np.sqrt(dim)
    query, key, value = draw(), draw(), draw()
    skew = np.linalg.qr(draw())[0]
    cases = {
        "Q = K = V = I": {},
        "random Q, K": {"query": query, "key": key},
        "symmetric V": {"value": (value + value.T) / np.sqrt(2)},
        "orthogonal V": {"value": skew},
    }
    levels, frames = np.linspace(0.25, 8, betas), 41
    figures, ends = {}, {}
    for name, matrices in cases.items():
        share = np.array(
            [
                _share(
                    Tokens(SelfAttention(b, **matrices), rate=4.0 if matrices else 2.0),
                    samples, tokens, dim, horizon, frames,
                )
                for b in levels
            ]
        )  # fmt: skip
        short = name.split(" =")[0].replace(" ", "-").replace(",", "").lower()
        figures[short] = draw_image(
            share, (0, horizon, levels[0], levels[-1]), "time t (SA clock)", "β",
            "P(⟨x₁,x₂⟩ ≥ 1 − δ)", f"{name}: {samples} starts of {tokens} tokens, d = {dim}.",
        )  # fmt: skip
        ends[name] = share[:, -1]
    rows = [
        holds(
            "random Q and K leave one cluster in the end (V = I, d ≥ n)", "Figure 18, Theorem 5",
            ends["random Q, K"].min() > 0.9, "P > 0.9 at every β",
            float(ends["random Q, K"].min()),
        ),
        holds(
            "another V changes the diagram", "Figure 18",
            np.abs(ends["symmetric V"] - ends["Q = K = V = I"]).max() > 0.3, "differs",
            float(np.abs(ends["symmetric V"] - ends["Q = K = V = I"]).max()),
        ),
    ]  # fmt: skip
    return Finding(rows, figures)


def _share(
    form: Form, samples: int, tokens: int, dim: int, horizon: float, frames: int
) -> np.ndarray:
    seen = sample_ensemble(
        form, 0, samples, tokens, dim, horizon, frames, lambda form, y: form.pair(y)
    )
    return (np.asarray(seen) >= 1 - NEAR).mean(axis=1)
