"""Four kinds of attention move a Gaussian by an affine map."""

from __future__ import annotations

import numpy as np
from scipy.linalg import sqrtm

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import L2Attention, MultiHead, SelfAttention, SinkhornAttention
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._gaussian_tokens import draw, quadrature_tokens

ENTRY = Entry(
    title="Four kinds of attention move a Gaussian by an affine map",
    places=["arXiv:2501.18322, abstract", "public scripts, equations of the covariance"],
    claim=(
        "Under softmax, multi-head, L2 and Sinkhorn attention the velocity in a Gaussian is affine "
        "in the place, so that Gaussians stay Gaussian; its matrix is explicit in each case."
    ),
    method=(
        "Genuine attention among the weighted nodes of a quadrature rule of a Gaussian in the "
        "plane, evaluated at places in its bulk, against the matrices of the scripts written anew "
        "(Sinkhorn's with SciPy's matrix square root)."
    ),
    subject="Gaussian",
    basis="code",
    limits=(
        "Centred Gaussians in dimension 2 with logits of moderate size, where a rule of the given "
        "order is exact to many digits. Sigmoid and masked attention were not tested."
    ),
    planted="SelfAttention.beta * 1.05",
    settings={"order": 36, "seeds": 3, "size": 0.8},
    fast={"order": 24, "seeds": 1},
)


def gaussian_velocities(*, order: int, seeds: int, size: float) -> Finding:
    """Attention among quadrature tokens against four affine maps."""
    worst: dict[str, float] = {}
    line: dict[str, tuple] = {}
    theory: dict[str, tuple] = {}
    places = np.random.default_rng(7).uniform(-1.2, 1.2, (12, 2))
    along = np.linspace(-1.2, 1.2, 13)[:, None] * [1.0, 0.5]
    for seed in range(seeds):
        Q, K, V = draw(2, seed, size)
        Q2, K2, V2 = draw(2, seed + 100, size)
        root = np.random.default_rng(seed + 50).standard_normal((2, 2)) * 0.4
        cov = root @ root.T + 0.3 * np.eye(2)
        tokens = quadrature_tokens(np.zeros(2), cov, order)
        A, A2, eye = K.T @ Q, K2.T @ Q2, np.eye(2)
        S = np.real(sqrtm(cov))
        # The Gaussian coupling of cost -⟨x, Aᵀy⟩ with both marginals N(0, Σ).
        C = 0.5 * (S @ np.real(sqrtm(4 * S @ A.T @ cov @ A @ S + eye)) @ np.linalg.inv(S) - eye)
        fields = {
            "softmax": (SelfAttention(1.0, Q, K, V), V @ cov @ A),
            "two heads": (
                MultiHead([SelfAttention(1.0, Q, K, V), SelfAttention(1.0, Q2, K2, V2)]),
                V @ cov @ A + V2 @ cov @ A2,
            ),
            # e^{-‖Qx-Ky‖²}: twice the exponent of the library's, which has a half.
            "L2": (L2Attention(2.0, Q, K, V),
                   2 * V @ cov @ np.linalg.solve(eye + 2 * K.T @ K @ cov, A)),
            "Sinkhorn": (SinkhornAttention(1.0, Q, K, V),
                         V @ np.linalg.inv(A.T) @ np.linalg.inv(cov) @ C),
        }  # fmt: skip
        for name, (field, matrix) in fields.items():
            off = np.asarray(field.velocity(tokens, places)) - places @ matrix.T
            worst[name] = max(worst.get(name, 0.0), float(np.abs(off).max()))
            if seed == 0:
                line[name] = (along[:, 0], np.asarray(field.velocity(tokens, along))[:, 0])
                theory[f"affine, {name}"] = (along[:, 0], (along @ matrix.T)[:, 0])
    rows = [
        judge(f"{name}: velocity against the affine map, largest error", "scripts; abstract", 0.0,
              error, absolute=1e-6)
        for name, error in worst.items()
    ]  # fmt: skip
    figure = plot_lines(
        line,
        "first coordinate of the place",
        Axis("first coordinate of the velocity"),
        f"Attention among {order}² quadrature tokens of a Gaussian, along a line; dashed: the "
        "affine maps.",
        theory=theory,
    )
    return Finding(rows, {"velocities": figure})
