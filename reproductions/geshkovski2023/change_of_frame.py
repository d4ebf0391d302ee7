"""The frame that grows with the tokens."""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._slopes import fitted_slope
from ._pure_attention import pure_run, skew_value

ENTRY = Entry(
    title="The frame that grows with the tokens",
    places=["section on the case d > 1", "section on the change of time-scale"],
    claim=(
        "If V has a positive eigenvalue the tokens x diverge like solutions of y' = Vy, while "
        "z = exp(-tV)x obeys an attention equation of its own and stays bounded."
    ),
    method=(
        "Integrate x and z separately from one prompt, with a random skew V, and compare x "
        "with exp(tV)z; fit the growth of x."
    ),
    subject="existence",
    basis="text",
    limits="One prompt of 16 tokens in R³ and one V with real positive eigenvalues, up to t = 8.",
    planted="SelfAttention.beta * 1.1",
    settings={"tokens": 16, "eigenvalues": [1.0, 0.5, 0.2], "horizon": 8.0},
)


def change_of_frame(*, tokens: int, eigenvalues: list[float], horizon: float) -> Finding:
    """x of pure attention against e^{tV}z of the rescaled equation; tokens run away like e^{λt}."""
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
    figure = plot_lines(
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
