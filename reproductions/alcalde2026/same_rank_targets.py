"""Weights that change in time reach every Gaussian of equal rank."""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from metastable.core.figure import Axis
from metastable.core.numerics import jnp
from metastable.core.verdict import judge
from metastable.fields import Schedule, SelfAttention
from metastable.flows import flow
from metastable.measures import Gaussian
from metastable.observe import bures_wasserstein
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Weights that change in time reach every Gaussian of equal rank",
    places=["arXiv:2606.07600, abstract"],
    claim=(
        "Any centred Gaussian whose covariance has the rank of the start is reached exactly in "
        "finite time by weights that change with time; none of a larger rank is."
    ),
    method=(
        "Two explicit steerings. Full rank: V = I and the constant A = (Σ_0⁻¹ − Σ_1⁻¹)/2 reach Σ_1 "
        "at t = 1. Rank r: V the generator of a path of linear maps from Σ_0 to Σ_1, and A(t) the "
        "pseudoinverse of the covariance on it. Distances of Bures to the target at t = 1, and to "
        "a target of one rank more."
    ),
    subject="control",
    basis="report",
    limits=(
        "Centred Gaussians: without the affine layer of the paper a zero mean stays zero. The "
        "steerings are derived here; the paper's construction was not read."
    ),
    implies=("rank_invariance",),
    planted="SelfAttention.beta * 1.02",
    settings={"dims": [2, 3, 5], "seeds": 3},
    fast={"dims": [3], "seeds": 1},
)


def same_rank_targets(*, dims: list[int], seeds: int) -> Finding:
    """Distances to targets of equal and of larger rank under two steerings."""
    full, low, short, curves = [], [], [], {}
    for dim in dims:
        for seed in range(seeds):
            random = np.random.default_rng([dim, seed])
            roots = random.standard_normal((2, dim, dim)) / np.sqrt(dim)
            first, goal = (r @ r.T + 0.1 * np.eye(dim) for r in roots)
            form = (np.linalg.inv(first) - np.linalg.inv(goal)) / 2
            zero = np.zeros(dim)
            target = Gaussian(zero, goal)
            run = flow(Gaussian(zero, first), SelfAttention(1.0, query=form), 1.0, frames=21)
            gaps = [bures_wasserstein(frame, target) for frame in run.frames]
            full.append(gaps[-1] / gaps[0])
            # Rank dim − 1, into another hyperplane: the path e^{tG}Σ_0e^{tGᵀ}.
            rank = dim - 1
            factor = random.standard_normal((dim, rank))
            frame = np.eye(dim) + 0.4 * random.standard_normal((dim, dim))
            rates = random.uniform(-1.0, 1.0, dim)
            path = frame @ np.diag(rates) @ np.linalg.inv(frame)
            field = Schedule(_Along(frame, rates, np.linalg.pinv(factor)))
            moved = Gaussian.from_factor(zero, expm(path) @ factor)
            steered = flow(Gaussian.from_factor(zero, factor), field, 1.0, frames=21)
            away = [bures_wasserstein(frame, moved) for frame in steered.frames]
            low.append(away[-1] / away[0])
            # Any Gaussian of rank d − 1 is at least √λ_min away from one of rank d.
            fuller = np.asarray(moved.cov) + 0.05 * np.eye(dim)
            least = np.sqrt(np.linalg.eigvalsh(fuller)[0])
            short.append(bures_wasserstein(steered.frames[-1], Gaussian(zero, fuller)) / least)
            if seed == 0:
                curves[f"d = {dim}, full rank"] = (run.times, gaps)
                curves[f"d = {dim}, rank {rank}"] = (steered.times, away)
    rows = [
        judge("full rank: distance to the target at t = 1 over that at 0, worst", "abstract", 0.0,
              float(max(full)), absolute=1e-6),
        judge("rank d − 1: the same", "abstract", 0.0, float(max(low)), absolute=1e-6),
        holds("a target of rank d stays as far as its smallest deviation: least ratio", "derived",
              min(short) > 1 - 1e-9, ">= 1", f"{min(short):.4f}"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("time t", clock="SA"), "Bures distance to the target",
        "Steering a centred Gaussian to another of equal rank, by explicit weights.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"distances": figure})


class _Along:
    """The head at time t: V = G and A(t) = (e^{tG}Σ_0e^{tGᵀ})⁺, for G = R diag(g) R⁻¹."""

    def __init__(self, frame: np.ndarray, rates: np.ndarray, inverse: np.ndarray):
        self.rates = jnp.asarray(rates)
        self.left, self.right = jnp.asarray(inverse @ frame), jnp.asarray(np.linalg.inv(frame))
        self.path = jnp.asarray(frame @ np.diag(rates) @ np.linalg.inv(frame))

    def __call__(self, t: float) -> SelfAttention:
        # ΣKᵀK is the projection on the range of e^{tG}L if K = L⁺e^{−tG}.
        keys = (self.left * jnp.exp(-t * self.rates)) @ self.right
        return SelfAttention(1.0, query=keys, key=keys, value=self.path)
