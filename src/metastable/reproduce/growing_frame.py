"""Pure attention in the frame that grows with it: the equation itself, and the size of logits."""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import gaussian_points
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.rescaled_runs import fitted_slope, pure_run, skew_value

__all__ = ["change_of_frame", "leading_logit"]


def change_of_frame(*, tokens: int, eigenvalues: list[float], horizon: float) -> Finding:
    """x of pure attention against e^{tV}z of the rescaled equation; tokens run away like e^{λt}."""
    from metastable.report.plots import draw_lines

    value, _ = skew_value(eigenvalues, 3)
    start = gaussian_points(tokens, len(eigenvalues), seed=3)
    plain = flow(start, SelfAttention(1.0, value=value), horizon, frames=41)
    moved = pure_run(start, horizon, value=value, frames=41)
    back = np.stack([z @ expm(t * value).T for t, z in zip(moved.times, moved.points, strict=True)])
    size = np.linalg.norm(plain.points, axis=2).max(axis=1)
    error = np.abs(back - plain.points).max(axis=(1, 2)) / size
    top = max(eigenvalues)
    late = plain.times >= 0.6 * horizon
    rows = [
        judge(
            "z = e^{−tV}x obeys ż_i = Σ_j P_ij V(z_j − z_i): largest relative "
            "difference of e^{tV}z from x",
            "section on the change of variables",
            0.0,
            float(error.max()),
            absolute=1e-6,
        ),
        judge(
            "x diverges like the solution of y′ = Vy: growth rate of max‖x_i‖",
            "section on the case d > 1",
            top,
            fitted_slope(plain.times[late], np.log(size[late])),
            relative=0.03,
        ),
        holds(
            "z stays bounded",
            "section on the change of variables",
            np.abs(moved.points).max() < 3 * np.abs(moved.points[0]).max(),
            "of the size of the start",
            f"{np.abs(moved.points).max() / np.abs(moved.points[0]).max():.2f} times the start",
        ),
    ]
    largest = np.linalg.norm(moved.points, axis=2).max(axis=1)
    figure = draw_lines(
        {"max‖x‖": (plain.times, size), "max‖z‖": (moved.times, largest)},
        "time t (SA clock)",
        "largest norm",
        f"Largest of {tokens} tokens in R^{len(eigenvalues)}, in both frames.",
        theory={
            "$e^{\\lambda_1 t}$": (plain.times, size[-1] * np.exp(top * (plain.times - horizon)))
        },
        log="y",
        lines=True,
    )
    return Finding(rows, {"norms": figure})


def leading_logit(*, tokens: int, eigenvalues: list[float], horizon: float) -> Finding:
    """The logit w_j written in the eigenbasis of V, as printed and as it is; its leading term."""
    from metastable.report.plots import draw_lines

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
    figure = draw_lines(
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
