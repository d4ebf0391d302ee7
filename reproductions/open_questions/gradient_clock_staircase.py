"""Is the energy a staircase in the clock of its gradient?"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Hardmax, Merging, flow
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="Is the energy a staircase in the clock of its gradient?",
    places=["arXiv:2410.06833, Section 6: a reparametrisation candidate, posed as a problem"],
    claim=(
        "Numerically no: in the clock with τ̇ = log β/|∇E| every jump comes at a time that falls "
        "like 1/log β, so that no plateau is left. Without the logarithm the answer is yes: jumps "
        "come at the lengths of the way travelled, which tend to those of β = ∞."
    ),
    method=(
        "That clock is the length of the path in configuration space over log β. Lengths up to "
        "every merger for β over a decade under USA, the gradient flow of E, against β = ∞; the "
        "share of the path on which the energy is between two levels."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "Numerical answer for uniform starts of six to eight tokens on S^{d−1}, d = 2 to 4, and "
        "β up to 800; the interval is that of the starts. Under SA the clock differs by factors of "
        "order one. It is a numerical answer with an argument, no proof."
    ),
    planted="SelfAttention.beta * 0.01",
    settings={"tokens": 7, "dims": [2, 3, 4], "betas": [50.0, 100.0, 200.0, 400.0, 800.0],
              "seeds": 6, "resolved": [25.0, 50.0, 100.0, 200.0, 400.0]},
    fast={"tokens": 5, "dims": [3], "betas": [50.0, 400.0], "seeds": 2, "resolved": [50.0, 200.0]},
)  # fmt: skip


def gradient_clock_staircase(
    *, tokens: int, dims: list[int], betas: list[float], seeds: int, resolved: list[float]
) -> Finding:
    """Tokens of one cluster move together: a step counts once for each of them."""
    rows, product = [], []
    ratio: dict[float, list[float]] = {beta: [] for beta in betas}
    for dim in dims:
        for seed in range(seeds):
            start = uniform(tokens, dim, 40 + seed)
            field = SelfAttention(1.0, normalized=False)
            ideal = _length(flow(start, field, math.inf, stepper=Hardmax(), frames=8 * tokens))
            product.append(ideal)
            for beta in betas:
                field = SelfAttention(beta, normalized=False)
                run = flow(start, field, math.inf, stepper=Merging(), frames=1500)
                ratio[beta].append(_length(run) / ideal)
    ends = [np.mean(ratio[b]) / math.log(b) for b in (betas[0], betas[-1])]
    wanted = math.log(betas[0]) / math.log(betas[-1])
    rows.append(judge(
        f"end of the run in the clock, β = {betas[-1]:g} over β = {betas[0]:g}: 1/log β",
        "Section 6", wanted, float(ends[1] / ends[0]), relative=0.1,
    ))  # fmt: skip
    rows.append(judge(f"path length at β = {betas[-1]:g} over that at β = ∞", "derived", 1.0,
                      float(np.mean(ratio[betas[-1]])), absolute=0.05))  # fmt: skip
    points, between, curves = np.asarray(uniform(tokens, dims[0], 40).points), [], {}
    for beta in resolved:
        length, height, level = _climb(points, beta)
        off = np.abs(height - level) > 0.02
        between.append(float((np.diff(length) * off[1:]).sum() / length[-1]))
        curves[f"β = {beta:g}"] = (length, height)
    # A jump takes the last stretch, of order β^{−1/2}, of the way of a pair.
    order = -float(np.polyfit(np.log(resolved), np.log(between), 1)[0])
    rows.append(judge("share of the path between two levels falls as β^(−1/2): exponent",
                      "derived", 0.5, order, absolute=0.15))  # fmt: skip
    figure = plot_lines(
        curves, "length of the path of all tokens (radians)", "energy 2βe^(−β)E",
        "One start; the clock log β/|∇E| shows the same curves divided by log β.", lines=True,
    )  # fmt: skip
    notes = [f"Path lengths of {len(product)} starts: {min(product):.3g} to {max(product):.3g}."]
    return Finding(rows, {"staircase": figure}, notes)


def _length(run) -> float:
    """Length of the path of all tokens: each token of a cluster counts."""
    labels = {frame.count: run.mergers.labels(frame.count) for frame in run.frames}
    x = np.array([np.asarray(frame.points)[labels[frame.count]] for frame in run.frames])
    step = 2 * np.arcsin(np.clip(np.linalg.norm(np.diff(x, axis=0), axis=2) / 2, 0, 1))
    return float(np.sqrt((step**2).sum(axis=1)).sum())


def _climb(points: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradient flow of E by the length of its path: lengths, energies and levels Σα²."""
    share, x, began, rows = np.full(len(points), 1 / len(points)), points, 0.0, []
    near = 0.02 / math.sqrt(beta)
    while len(x) > 1:
        shape, w = x.shape, share

        def slope(_, flat: np.ndarray, shape=shape, w=w) -> np.ndarray:
            y = flat.reshape(shape)
            gram = y @ y.T
            top = np.max(gram - 4 * np.eye(len(y)))
            # Its own cluster does not move a token; the rest is measured by the closest pair.
            pull = np.exp(beta * (gram - top)) * (1 - np.eye(len(y))) * w @ y
            v = pull - np.sum(pull * y, axis=1, keepdims=True) * y
            return (v / math.sqrt(float(len(points) * w @ np.sum(v * v, axis=1)))).ravel()

        def meet(_, flat: np.ndarray, shape=shape) -> float:
            y = flat.reshape(shape)
            return float(_apart(y).min() - near)

        meet.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
        run = solve_ivp(slope, (0, 50), x.ravel(), events=meet, rtol=1e-6, atol=1e-9, max_step=0.02)
        for at, flat in zip(run.t, run.y.T, strict=True):
            gram = flat.reshape(shape) @ flat.reshape(shape).T
            rows.append((began + at, float(w @ np.exp(beta * (gram - 1)) @ w), float(w @ w)))
        x, began = run.y[:, -1].reshape(shape), began + run.t[-1]
        i, j = np.unravel_index(np.argmin(_apart(x)), (len(x), len(x)))
        mean = w[i] * x[i] + w[j] * x[j]
        x = np.vstack([np.delete(x, [i, j], axis=0), mean / np.linalg.norm(mean)])
        share = np.append(np.delete(w, [i, j]), w[i] + w[j])
    length, height, level = np.array(rows).T
    return length, height, level


def _apart(y: np.ndarray) -> np.ndarray:
    gap = np.linalg.norm(y[:, None] - y[None], axis=2)
    return gap + 9 * np.eye(len(y))
