"""Hardmax attention solves the linear problem of Frank and Wolfe."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Hardmax attention solves the linear problem of Frank and Wolfe",
    places=["arXiv:2508.09628, abstract"],
    claim=(
        "As β → ∞ attention at x returns the point of the hull of the tokens that maximises "
        "s ↦ ⟨Bx, s⟩, so that a residual layer is a Frank–Wolfe step for the form ½⟨Bx, x⟩."
    ),
    method=(
        "Genuine softmax attention at large β, for B positive, negative and indefinite, against "
        "the solution of the linear program over convex combinations of the tokens; at smaller β "
        "its distance from it against the softmax mass outside, at most (n−1)e^{−β·gap}."
    ),
    subject="existence",
    basis="report",
    limits="Places with a unique maximiser; ties were not looked at.",
    planted="SelfAttention.query * -1.0",
    settings={
        "tokens": 30,
        "dims": [2, 3, 6],
        "hot": 400000.0,
        "betas": [2.0, 5.0, 10.0, 20.0, 40.0],
    },
    fast={"dims": [2, 3]},
)


def frank_wolfe_step(*, tokens: int, dims: list[int], hot: float, betas: list[float]) -> Finding:
    """Attention at β → ∞ against a linear program."""
    far, below, curves, theory = {}, [], {}, {}
    for dim in dims:
        measure = gaussian_points(tokens, dim, seed=dim)
        x = np.asarray(measure.points)
        root = np.random.default_rng(dim).standard_normal((dim, dim)) / np.sqrt(dim)
        forms = {"B > 0": root @ root.T + 0.1 * np.eye(dim), "indefinite": root + root.T}
        forms["B < 0"] = -forms["B > 0"]
        for name, form in forms.items():
            best = np.array([_vertex(form @ place, x) for place in x])
            # The logit ⟨Qx, y⟩ with Q = B.
            seen = np.asarray(SelfAttention(hot, query=form).velocity(measure))
            scores = np.sort(x @ form.T @ x.T, axis=1)
            gap = scores[:, -1] - scores[:, -2]
            clear = gap * hot > 40
            off = np.linalg.norm(seen - best, axis=1)[clear].max()
            far[name] = max(far.get(name, 0.0), float(off))
            width = np.linalg.norm(x[:, None] - x, axis=2).max()
            for beta in betas:
                near = np.asarray(SelfAttention(beta, query=form).velocity(measure))
                apart = np.linalg.norm(near - best, axis=1)
                bound = width * (tokens - 1) * np.exp(-beta * gap)
                # Rounding is 1e-14, however small the bound.
                below.append((apart / (bound + 1e-13)).max())
            if name == "B > 0":
                one = int(np.argsort(gap)[tokens // 2])
                near = [
                    np.asarray(SelfAttention(b, query=form).velocity(measure))[one] for b in betas
                ]
                curves[f"d = {dim}"] = (betas, np.linalg.norm(near - best[one], axis=1) + 1e-17)
                least = width * (tokens - 1) * np.exp(-np.array(betas) * gap[one])
                theory[f"bound, d = {dim}"] = (betas, least)
    rows = [
        judge(f"{name}: attention at β = {hot:g} against the linear program, worst place",
              "abstract", 0.0, off, absolute=1e-8)
        for name, off in far.items()
    ]  # fmt: skip
    rows.append(
        holds("smaller β: distance over (n−1)e^{−β·gap} times the diameter", "derived",
              max(below) <= 1 + 1e-9, "<= 1", f"{max(below):.3g} at most")
    )  # fmt: skip
    figure = plot_lines(
        curves, "β",
        Axis("distance from the Frank–Wolfe point", scale="log", limits=(1e-18, 100.0)),
        "Softmax attention at one token of each dimension; dashed: the bound by the gap of the two "
        "best scores.", theory=theory,
    )  # fmt: skip
    return Finding(rows, {"distance": figure})


def _vertex(direction: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The maximiser of ⟨direction, s⟩ over the hull of the rows of x, by linear programming."""
    ones = np.ones((1, len(x)))
    found = linprog(-(x @ direction), A_eq=ones, b_eq=[1.0], bounds=(0, 1), method="highs-ds")
    return found.x @ x
