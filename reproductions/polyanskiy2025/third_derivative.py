"""The criterion by the third derivative, for attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import Points
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="The criterion by the third derivative, for attention",
    places=["Theorem 2.1", "arXiv:2507.22857, abstract"],
    claim=(
        "The criterion τ∫(f‴)_+ ≤ 4(1 + τ/2π) f′(0) holds for the force of unnormalised attention "
        "at every β ≥ −0.16."
    ),
    method=(
        "The force of two tokens at equispaced angles, differentiated by its Fourier series, over "
        "a range of β; the edge of the criterion against derivatives taken by hand, and its limit "
        "for large β in closed form."
    ),
    subject="existence",
    basis="report",
    limits=(
        "Read as quoted, with the integral over the whole circle, the criterion reaches to "
        "β = −0.192 and not only to −0.16; whether the paper's is stricter we could not see."
    ),
    implies=("random_starts_meet",),
    planted="SelfAttention.beta * 1.3",
    settings={"angles": 512, "betas": 60, "most": 40.0},
    fast={"angles": 256, "betas": 16},
)


def third_derivative(*, angles: int, betas: int, most: float) -> Finding:
    """Both sides of the criterion from the field itself."""
    grid = np.concatenate(
        [np.linspace(-0.16, 1.0, betas // 2), np.geomspace(1.0, most, betas // 2)]
    )
    shares = np.array([used(b, angles) for b in grid])
    edge: Any = brentq(lambda b: used(b, angles) - 1, -0.3, -0.05, xtol=1e-7)
    by_hand: Any = brentq(lambda b: hand(b) - 1, -0.3, -0.05, xtol=1e-10)
    # f ≈ e^β β^{−1/2} h(√β x), h = ue^{−u²/2}: 4[h″(u_2) − h″(u_1)], u² = 3 ± √6 the zeros of h‴.
    bend = lambda u: (u**3 - 3 * u) * np.exp(-u * u / 2)
    limit = (bend(np.sqrt(3 + np.sqrt(6))) - bend(np.sqrt(3 - np.sqrt(6)))) / 2
    rows = [
        holds("the criterion holds from β = −0.16 on", "abstract", shares.max() <= 1,
              "left side at most the right", f"{shares.max():.3f} of it at most"),
        # 1e−4: the positive part of f‴ has corners, and its sum an error of that size.
        judge("least β of the criterion", "derived", by_hand, edge, absolute=1e-4),
        judge("left side over right side as β → ∞", "derived", limit, hand(1e5), relative=3e-3),
    ]  # fmt: skip
    wide = np.linspace(-0.6, 4.0, 93)
    figure = Lines(
        Axis("β"), Axis("left side of the criterion over its right side"),
        [Series("from the field", grid[grid < 4], shares[grid < 4], style="points"),
         Series("by hand", wide, [hand(b) for b in wide], role="theory")],
        levels={"holds below": 1.0}, marks={"−0.16": -0.16, "−2/3": -2 / 3},
        caption="τ∫(f‴)_+ over 4(1 + τ/2π)f′(0) for f(x) = e^{β cos x} sin x.",
    )  # fmt: skip
    return Finding(rows, {"criterion": figure})


def used(beta: float, angles: int) -> float:
    """Left side over right side, from the force that one token feels from another."""
    x = 2 * np.pi * np.arange(angles) / angles
    field = SelfAttention(abs(beta), query=-1 if beta < 0 else None, normalized=False)
    one = Points(np.array([[1.0, 0.0]]))
    places = np.column_stack([np.cos(x), np.sin(x)])
    pull = np.asarray(field.velocity(one, places)) @ np.array([[1, 0], [0, 1]])
    force = pull[:, 0] * np.sin(x) - pull[:, 1] * np.cos(x)  # towards the token at angle 0
    waves = 1j * np.fft.fftfreq(angles, 1 / angles)
    waves[angles // 2] = 0
    first, third = (np.fft.ifft(waves**k * np.fft.fft(force)).real for k in (1, 3))
    return _share(x, first, third)


def hand(beta: float, angles: int = 200_000) -> float:
    """The same with derivatives taken by hand, on a fine grid."""
    x = 2 * np.pi * np.arange(angles) / angles
    c, s = np.cos(x), np.sin(x)
    size = np.exp(beta * (c - 1))
    first = size * (c - beta * s * s)
    third = beta * s * s * (1 + 3 * beta * c - beta**2 * s * s) - c - 3 * beta * (c * c - s * s)
    return _share(x, first, size * (third + 3 * beta**2 * s * s * c))


def _share(x: np.ndarray, first: np.ndarray, third: np.ndarray) -> float:
    half = len(x) // 2
    # Where f′ is smaller than rounding it is negative for β > 0.
    k = np.flatnonzero(first[: half + 1] > 1e-9 * np.abs(first).max())[-1]
    tau = x[k] + (x[1] - x[0]) * first[k] / (first[k] - first[k + 1])
    left = tau * np.maximum(third, 0).sum() * (x[1] - x[0])
    return float(left / (4 * (1 + tau / (2 * np.pi)) * first[0]))
