"""Nearest to the projection after a time of order log β."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe import wasserstein
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._cold import BILINEAR, VALUE, projected, smooth_start

ENTRY = Entry(
    title="Nearest to the projection after a time of order log β",
    places=["arXiv:2605.10931, abstract"],
    claim=(
        "W₂(μ_t, P_#μ_0) is at most of the order of √(log(β+1)/β) e^{Ct} + e^{−ct}: it falls with "
        "time, is least at a time that grows no faster than log β, and its least value tends to 0 "
        "as β grows."
    ),
    method=(
        "Tokens on the circle for growing β, with n growing along: distance to the projection in "
        "time, its least value and when that is reached. At fixed times, ratio of the deviation "
        "from the largest β's curve to √(log(β+1)/β)."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "One pair of matrices on the circle, β up to 80. Constants are not compared. At late "
        "times n limits the distance: at β = 160, left out for that, 1600 tokens are too few."
    ),
    implies=("projection_limit",),
    planted="SelfAttention.beta = 20.0",
    settings={"betas": [10.0, 20.0, 40.0, 80.0], "per_beta": 16, "horizon": 6.0},
    fast={"betas": [10.0, 20.0, 40.0], "per_beta": 10, "horizon": 5.0},
)


def log_beta_window(*, betas: list[float], per_beta: int, horizon: float) -> Finding:
    """Least distance to the projection, and its time, for growing β."""
    least, when, curves, early = [], [], {}, []
    for beta in betas:
        x = smooth_start(int(per_beta * max(betas)))
        target = projected(x, VALUE, BILINEAR)
        field = SelfAttention(beta, query=BILINEAR, value=VALUE)
        run = flow(Points(x), field, horizon, frames=41)
        far = np.array([wasserstein(frame, target) for frame in run.frames])
        best = int(far.argmin())
        least.append(far[best])
        when.append(run.times[best])
        early.append(far[run.times <= 2.0])
        curves[f"β = {beta:g}"] = (run.times, far)
    off = np.array([np.abs(e - early[-1]).max() for e in early[:-1]])
    ratio = off / np.sqrt(np.log(np.array(betas[:-1]) + 1) / np.array(betas[:-1]))
    growth = np.polyfit(np.log(betas), when, 1)[0]
    slack = horizon / 40
    rows = [
        holds("the least distance to P_#μ_0 falls with β at every doubling", "abstract",
              bool(np.all(np.diff(least) < 0)), "falls", " → ".join(f"{v:.3f}" for v in least)),
        holds("the time of the least distance grows by at most 2 log 2 at a doubling of β",
              "abstract; bound chosen", bool(np.all(np.diff(when) <= 2 * np.log(2) + slack))
              and growth > 0, "grows like log β",
              f"{growth:.2f} log β, {when[0]:.2f} to {when[-1]:.2f}"),
        holds("up to t = 2: deviation from the largest β over √(log(β+1)/β) does not grow",
              "abstract", bool(np.all(np.diff(ratio) <= 0)), "does not grow",
              " → ".join(f"{v:.3f}" for v in ratio)),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("time t", clock="SA"), Axis("$W_2$ to the projection (radians)", scale="log"),
        "Distance of tokens on the circle from the projection of the start.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"distance": figure})
