"""What dominates a logit."""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from metastable.core.verdict import judge
from metastable.measures import gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._slopes import fitted_slope
from ._pure_attention import pure_run, skew_value

ENTRY = Entry(
    title="What dominates a logit",
    places=["proof of Theorem 3, expansion of w_j and its estimate"],
    claim=(
        "The logit w_j is the sum over k ≠ l of exp((λ_k + λ_l)t) φ_k*(exp(tV) z_i) "
        "φ_l*(exp(tV) z_j), and differs from its leading term by at most C exp((λ_1 + "
        "|λ_2|)t)."
    ),
    method=(
        "Evaluate the logits of a run directly, by the printed sum and by the full sum with "
        "the inner products of the eigenvectors; fit the growth of what is left beside the "
        "leading term."
    ),
    known="disagree",
    correction=(
        "The sum runs over all pairs k, l (the leading term has k = l = 1), each with the "
        "factor ⟨φ_k, φ_l⟩, and the exponentials stand either outside or inside φ*, not both. "
        "The estimate that follows is right."
    ),
    subject="rates",
    basis="text",
    limits="One V of R³ with real eigenvalues and one prompt of 16 tokens, up to t = 12.",
    planted="skew_value * 1.1",
    settings={"tokens": 16, "eigenvalues": [1.0, 0.4, -0.3], "horizon": 12.0},
)


def leading_logit(*, tokens: int, eigenvalues: list[float], horizon: float) -> Finding:
    """The logit w_j written in the eigenbasis of V, as printed and as it is; its leading term."""
    value, basis = skew_value(eigenvalues, 1)
    dual = np.linalg.inv(basis)  # rows φ_k*
    run = pure_run(gaussian_points(tokens, len(eigenvalues), seed=1), horizon, value=value)
    rates = np.asarray(eigenvalues)
    gram = basis.T @ basis
    off_printed, off_right, rest, bound = [], [], [], []
    for t, z in zip(run.times, run.points, strict=True):
        x = z @ expm(t * value).T
        w = x @ x.T
        pair = np.exp(np.add.outer(rates, rates) * t)
        printed = (x @ dual.T) @ (pair * (1 - np.eye(len(rates)))) @ (x @ dual.T).T
        right = (z @ dual.T) @ (pair * gram) @ (z @ dual.T).T
        lead = np.exp(2 * rates[0] * t) * np.outer(z @ dual[0], z @ dual[0]) * gram[0, 0]
        off_printed.append(np.abs(printed - w).max() / np.abs(w).max())
        off_right.append(np.abs(right - w).max() / np.abs(w).max())
        rest.append(np.abs(w - lead).max())
        bound.append(np.abs(x @ dual.T).max(axis=0))
    second = float(np.sort(np.abs(rates))[-2])
    rest, bound = np.array(rest), np.array(bound)
    late = run.times >= 0.5 * horizon
    growth = [fitted_slope(run.times[late], np.log(b)) for b in bound[late].T]
    excess = float((np.array(growth) - np.abs(rates)).max())
    rows = [
        judge(
            "w_j as the printed sum over k ≠ ℓ with e^{tV} inside φ*: relative error, median",
            "proof of Theorem 3, expansion of w_j",
            0.0,
            float(np.median(off_printed)),
            absolute=1e-9,
        ),
        judge(
            "the sum over all k, ℓ of e^{(λ_k+λ_ℓ)t} φ_k*(z_i) φ_ℓ*(z_j) ⟨φ_k,φ_ℓ⟩",
            "derived here",
            0.0,
            max(off_right),
            absolute=1e-9,
        ),
        holds(
            "|w_j − e^{2λ_1t} φ_1*(z_i) φ_1*(z_j)| ≤ C e^{(λ_1+|λ_2|)t}, φ_1 of length 1",
            "proof of Theorem 3",
            fitted_slope(run.times[late], np.log(rest[late])) < rates[0] + second + 0.02,
            f"grows at {rates[0] + second:.3g} at most",
            f"{fitted_slope(run.times[late], np.log(rest[late])):.3f}",
        ),
        holds(
            "|φ_k*(e^{tV}z_i)| ≤ C e^{|λ_k|t} for every k",
            "proof of Theorem 3",
            excess < 0.02,
            "rates above |λ_k|: none",
            f"largest excess {excess:.3f}",
        ),
    ]
    figure = plot_lines(
        {
            "logit less its leading term": (run.times, rest),
            "leading term": (run.times, np.exp(2 * rates[0] * run.times)),
        },
        "time t (SA clock)",
        "size",
        f"Logits of {tokens} tokens: what is left beside the leading term grows more slowly.",
        theory={
            "bound": (run.times, rest[-1] * np.exp((rates[0] + second) * (run.times - horizon)))
        },
        log="y",
        lines=True,
    )
    return Finding(rows, {"logits": figure})
