"""How far random tokens are from the common cosine."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows.ensemble import choose_form, sample_ensemble
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.equiangular import equiangular_cosine

ENTRY = Entry(
    title="How far random tokens are from the common cosine",
    places=["Theorem 6.9"],
    claim=(
        "For d ≫ n the inner products of uniform tokens stay within O(√(log d/d)) of γ_β(t) and "
        "the difference dies out exponentially."
    ),
    method=(
        "Root mean square of ⟨x_i,x_j⟩ − γ_β(t) over many starts, against the linear response of "
        "the closed equation of inner products to independent starts of variance 1/d."
    ),
    subject="rates",
    basis="report",
    limits="The size is that of typical deviations; the logarithm, which is about the worst pair, "
    "and the probability of the theorem are not tested. Runs end at t = 5, not 6 as first "
    "set: later the spread at large d is rounding of the single precision of ensembles.",
    implies=("many_dimensions",),
    planted="SelfAttention.beta * 1.2",
    settings={"tokens": 4, "dims": [1024, 16384], "beta": 2.0, "samples": 6000, "horizon": 5.0},
    fast={"dims": [4096], "samples": 768},
)


def spread_around_gamma(
    *, tokens: int, dims: list[int], beta: float, samples: int, horizon: float
) -> Finding:
    """The spread over starts is that of the linear response, and shrinks like e^{−2t}."""
    times = np.linspace(0.0, horizon, 11)
    gamma = equiangular_cosine(times, beta, tokens)
    response = linear_response(times, beta, tokens)
    upper = np.triu_indices(tokens, 1)
    rows, curves, law = [], {}, {}
    form = choose_form(SelfAttention(beta), tokens, dims[0])
    assert form is not None
    observe = lambda form, y: form.gram(y)
    for dim in dims:
        gram = sample_ensemble(form, 1, samples, tokens, dim, horizon, len(times), observe)
        away = np.asarray(gram, float)[:, :, upper[0], upper[1]] - gamma[:, None, None]
        spread = np.sqrt((away**2).mean(axis=(1, 2)))
        expected = response / np.sqrt(dim)
        # All pairs may move together: one degree of freedom a start, error 1/√(2·samples).
        allowed = 4 / np.sqrt(2 * samples) + 4 / np.sqrt(dim)
        for k in (4, 7, 10):
            rows.append(judge(f"d = {dim}: spread at t = {times[k]:g}", "derived", expected[k],
                              spread[k], relative=allowed))  # fmt: skip
        curves[f"d = {dim}"] = (times, spread)
        law[f"linear response, d = {dim}"] = (times, expected)
    fall = np.log(expected[6] / expected[10]) / (times[10] - times[6])
    seen = np.log(spread[6] / spread[10]) / (times[10] - times[6])
    rows.append(judge("rate at which the spread dies out", "derived", fall, seen, relative=0.05))
    figure = plot_lines(
        curves, "time t (SA clock)", "root mean square of ⟨x_i,x_j⟩ − γ_β(t)",
        f"{tokens} uniform tokens, β = {beta:g}, {samples} starts; dashed: linear response.",
        theory=law, log="y",
    )  # fmt: skip
    return Finding(rows, {"spread": figure})


def linear_response(times: np.ndarray, beta: float, tokens: int) -> np.ndarray:
    """√d times the spread: what unit changes of single pairs of orthogonal tokens grow to."""
    rows, columns = np.triu_indices(tokens, 1)
    count = len(rows)

    def motion(_, y: np.ndarray) -> np.ndarray:
        gram = np.tile(np.eye(tokens), (count + 1, 1, 1))
        gram[:, rows, columns] = gram[:, columns, rows] = y.reshape(count + 1, count)
        share = np.exp(beta * (gram - 1))
        mean = share / share.sum(axis=2, keepdims=True) @ gram
        own = np.einsum("sii->si", mean)
        change = mean - own[:, :, None] * gram
        return (change + change.transpose(0, 2, 1))[:, rows, columns].ravel()

    size = 1e-6
    start = np.concatenate([np.zeros((1, count)), size * np.eye(count)])
    run = solve_ivp(motion, (0, times[-1]), start.ravel(), "DOP853", times, rtol=1e-12, atol=1e-14)
    y = run.y.T.reshape(len(times), count + 1, count)
    change = (y[:, 1:] - y[:, :1]) / size  # [time, pair that was changed, pair]
    return np.sqrt((change**2).sum(axis=1).mean(axis=1))
