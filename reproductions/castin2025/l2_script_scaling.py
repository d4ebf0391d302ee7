"""The script for L2 attention mixes two temperatures."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import L2Attention
from metastable.flows import flow
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._gaussian_tokens import moments, quadrature_tokens

ENTRY = Entry(
    title="The script for L2 attention mixes two temperatures",
    places=["public scripts, covariance equation of L2 attention"],
    claim=(
        "The covariance equation integrated for the figures of L2 attention, "
        "Σ̇ = 2VΣ(I + 2KᵀKΣ)⁻¹AΣ + transpose with A = KᵀQ/√d, is that of attention by distance."
    ),
    method=(
        "Move quadrature tokens of a Gaussian by genuine attention of weights "
        "exp(−‖Qx−Ky‖²/√d) and compare the derivative of their covariance with the equation as "
        "scripted and with 2KᵀK/√d in the place of 2KᵀK."
    ),
    known="disagree",
    correction=(
        "The distance gives ⟨Qx,Ky⟩ and ‖Ky‖² the same factor: either both are divided by √d or "
        "neither. As scripted it is the equation of a kernel whose two terms have different "
        "temperatures. The pictures of the scripts change in their scale, not in their kind."
    ),
    subject="Gaussian",
    basis="code",
    limits=(
        "The definition of L2 attention in the text was not read: it may say how the factors are "
        "meant. One matrix pair, dimension 2."
    ),
    planted="L2Attention.beta * 1.1",
    settings={"order": 30, "sizes": [0.2, 0.5, 1.0], "step": 1e-3},
    fast={"order": 22, "sizes": [0.5, 1.0]},
)


def l2_script_scaling(*, order: int, sizes: list[float], step: float) -> Finding:
    """The derivative of the covariance of tokens against two equations for it."""
    dim = 2
    random = np.random.default_rng(3)
    Q, V = random.standard_normal((2, dim, dim)) * 0.6
    K = -Q
    seen, scripted, right, kept = [], [], [], []
    for size in sizes:
        cov = size * np.array([[1.0, 0.3], [0.3, 0.6]])
        start = quadrature_tokens(np.zeros(dim), cov, order)
        # Exponent ‖·‖²/√d is β‖·‖²/2 with β = 2/√d.
        run = flow(start, L2Attention(2 / np.sqrt(dim), Q, K, V), 2 * step, frames=3)
        first, middle, last = (moments(f.points, f.weights)[1] for f in run.frames)
        moved = (4 * middle - 3 * first - last) / (2 * step)  # of second order at t = 0
        A, eye = K.T @ Q / np.sqrt(dim), np.eye(dim)
        answers = []
        for gram in (K.T @ K, K.T @ K / np.sqrt(dim)):
            rate = 2 * V @ cov @ np.linalg.solve(eye + 2 * gram @ cov, A) @ cov
            answers.append(rate + rate.T)
        scale = np.linalg.norm(answers[1])
        scripted.append(np.linalg.norm(moved - answers[0]) / scale)
        right.append(np.linalg.norm(moved - answers[1]) / scale)
        seen.append(moved[0, 0])
        kept.append([answer[0, 0] for answer in answers])
    rows = [
        judge("as scripted: relative difference of Σ̇ from that of the tokens, largest",
              "public scripts", 0.0, float(max(scripted)), absolute=1e-4),
        judge("with KᵀK divided by √d too", "derived", 0.0, float(max(right)), absolute=1e-4),
    ]  # fmt: skip
    theory = {
        name: (sizes, [pair[k] for pair in kept])
        for k, name in enumerate(("as scripted", "one temperature"))
    }
    figure = plot_lines(
        {"tokens": (sizes, seen)},
        "size of the covariance",
        Axis("derivative of the first variance", clock="SA"),
        "Derivative of a variance at the start, from attention by distance among quadrature "
        "tokens; dashed: two equations.",
        theory=theory,
    )
    return Finding(rows, {"derivatives": figure})
