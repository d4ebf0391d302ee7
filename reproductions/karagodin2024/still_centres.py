"""How long strong centres stand still."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.causal import log_persistence_time, separation
from reproductions.karagodin2024._centres import strong_mask

ENTRY = Entry(
    title="How long strong centres stand still",
    places=["Lemma 5.1"],
    claim=(
        "On the circle a token farther than c(1+2ε)β^(−1/2) from all s−1 earlier ones moves less "
        "than εcβ^(−1/2) up to a time of order ε e^(c²/2)/s, shorter for later tokens."
    ),
    method=(
        "Follow the strong centres of random sequences to the time of the lemma; then the worst "
        "case, all earlier tokens at one place at the allowed distance, whose time to move that "
        "far is a quadrature of one equation."
    ),
    subject="causal",
    basis="report",
    limits=(
        "One β; sequences whose centres outlast the horizon are followed only up to it. The worst "
        "case and its time are derived here."
    ),
    planted="SelfAttention.beta * 0.8",
    settings={
        "beta": 64.0,
        "factor": 3.0,
        "drift": 0.1,
        "tokens": 200,
        "starts": 12,
        "crowds": [1, 4, 16],
    },
    fast={"tokens": 60, "starts": 4, "crowds": [1, 4]},
)


def still_centres(
    *, beta: float, factor: float, drift: float, tokens: int, starts: int, crowds: list[int]
) -> Finding:
    """Largest motion of centres over the bound, and exact times of the worst case."""
    reach = separation(beta, factor)
    bound = drift * reach
    field = SelfAttention(beta, causal=True)
    span = lambda s: math.exp(log_persistence_time(beta, s, factor=factor, drift=drift))
    moved, centres = 0.0, 0
    for seed in range(starts):
        start = uniform(tokens, 2, seed=seed)
        mask = strong_mask(np.asarray(start.points)[None], reach * (1 + 2 * drift))[0]
        index = np.flatnonzero(mask)[1:]  # the first token never moves
        times = np.array([span(k + 1) for k in index])
        run = flow(start, field, float(times.max()), frames=np.unique([0.0, *times]))
        for k, time in zip(index, times, strict=True):
            frame = run.points[np.searchsorted(run.times, time - 1e-9)][k]
            cosine = float(np.clip(frame @ np.asarray(start.points[k]), -1, 1))
            moved, centres = max(moved, math.acos(cosine) / bound), centres + 1
    rows = [
        holds("no strong centre of random sequences moves by the bound", "Lemma 5.1",
              moved < 1, f"< 1 of the bound, {centres} centres", f"{moved:.3f}")
    ]  # fmt: skip
    seen, exact, lemma = [], [], []
    for crowd in crowds:
        far = reach * (1 + 2 * drift)
        exact.append(quad(_slowness, far - bound, far, args=(beta, crowd))[0])
        lemma.append(span(crowd + 1))
        angles = np.array([0.0] * crowd + [far])
        pair = Points(np.stack([np.cos(angles), np.sin(angles)], axis=1))
        run = flow(pair, field, 1.5 * exact[-1], frames=301)
        angle = np.arctan2(run.points[:, -1, 1], run.points[:, -1, 0])
        seen.append(float(np.interp(-(far - bound), -angle, run.times)))
        claim = f"time to move by the bound, {crowd} earlier tokens at one place"
        rows.append(judge(claim, "derived", exact[-1], seen[-1], relative=0.01))
        claim = f"the lemma's time is no longer, {crowd} earlier tokens"
        rows.append(
            holds(claim, "Lemma 5.1", lemma[-1] <= seen[-1], f"≤ {seen[-1]:.3g}",
                  f"{lemma[-1]:.3g}")
        )  # fmt: skip
    simple = factor**2 / 2 - factor**4 / (24 * beta) + math.log(drift)
    known = log_persistence_time(beta, 1, factor=factor, drift=drift)
    rows.append(holds("the simple form ε e^{c²/2 − c⁴/24β} is not longer", "Lemma 5.1",
                      simple <= known, f"≤ {known:.3f}", f"{simple:.3f}"))  # fmt: skip
    figure = plot_lines(
        {"particles": (crowds, seen)}, "earlier tokens at one place", "time (SA clock)",
        f"Time to move by εcβ^(−1/2), β = {beta:g}, c = {factor:g}, ε = {drift:g}.",
        theory={"quadrature": (crowds, exact), "bound of the lemma": (crowds, lemma)}, log="xy",
    )  # fmt: skip
    return Finding(rows, {"times": figure})


def _slowness(x: float, beta: float, crowd: int) -> float:
    """Time for one radian at distance x from a crowd, with the token's own weight 1."""
    weight = math.exp(beta * (math.cos(x) - 1))
    return (1 + crowd * weight) / (crowd * weight * math.sin(x))
