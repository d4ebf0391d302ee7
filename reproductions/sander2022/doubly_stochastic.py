"""Sinkhorn attention is doubly stochastic, softmax is its first step."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention, SinkhornAttention
from metastable.measures import gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._scaling import scaled

ENTRY = Entry(
    title="Sinkhorn attention is doubly stochastic, softmax is its first step",
    places=["arXiv:2110.11773, abstract", "public code, README and scaling"],
    claim=(
        "One normalisation of the kernel gives the attention matrix of softmax, and Sinkhorn's "
        "algorithm one whose rows and columns all sum to 1."
    ),
    method=(
        "Read the attention matrix off the velocity of n independent tokens in R^n, for softmax "
        "and Sinkhorn attention, and compare it with the algorithm written out; sums of rows and "
        "columns; how far the columns are from 1 after few normalisations."
    ),
    subject="normalisation",
    basis="code",
    limits=(
        "The README calls five normalisations enough; that depends on the size of the logits, "
        "which the last row shows for ours."
    ),
    planted="SinkhornAttention.beta * 1.1",
    settings={"tokens": 24, "betas": [0.5, 2.0, 6.0], "seeds": 3},
    fast={"seeds": 1},
)


def doubly_stochastic(*, tokens: int, betas: list[float], seeds: int) -> Finding:
    """Attention matrices against the algorithm."""
    soft = hard = sums = 0.0
    columns, five = [], {}
    curves = {}
    for beta in betas:
        five[beta] = 0.0
        for seed in range(seeds):
            measure = gaussian_points(tokens, tokens, scale=tokens**-0.5, seed=seed)
            x = np.asarray(measure.points)
            Q, K = np.random.default_rng(seed).standard_normal((2, tokens, tokens)) / np.sqrt(
                tokens
            )
            logits = beta * x @ Q.T @ K @ x.T
            rest = np.linalg.inv(x)
            P = np.asarray(SelfAttention(beta, query=Q, key=K).velocity(measure)) @ rest
            D = np.asarray(SinkhornAttention(beta, query=Q, key=K).velocity(measure)) @ rest
            soft = max(soft, np.abs(P - scaled(logits, 1)).max())
            hard = max(hard, np.abs(D - scaled(logits, 4000)).max())
            sums = max(sums, np.abs(D.sum(axis=0) - 1).max(), np.abs(D.sum(axis=1) - 1).max())
            columns.append(np.abs(P.sum(axis=0) - 1).max())
            off = [np.abs(scaled(logits, k).sum(axis=0) - 1).max() for k in range(1, 22, 2)]
            five[beta] = max(five[beta], off[2])
            if seed == 0:
                curves[f"β = {beta:g}"] = (np.arange(1, 22, 2), np.array(off) + 1e-17)
    rows = [
        judge("Sinkhorn: sums of rows and columns − 1, worst", "abstract", 0.0, float(sums),
              absolute=1e-9),
        judge("Sinkhorn: largest difference from the algorithm written out", "code", 0.0,
              float(hard), absolute=1e-9),
        judge("softmax: largest difference from one normalisation", "README", 0.0, float(soft),
              absolute=1e-9),
        holds("softmax: some column is far from 1", "abstract", min(columns) > 0.01, "> 0.01",
              f"{min(columns):.3f} at least"),
        holds("five normalisations: worst column, least and largest β", "README",
              five[betas[0]] < 1e-3 and five[betas[-1]] > five[betas[0]],
              "small for small logits, larger for larger",
              f"{five[betas[0]]:.1e}, {five[betas[-1]]:.1e}"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("normalisations"), Axis("worst column sum − 1", scale="log"),
        f"How fast Sinkhorn's algorithm makes the columns of {tokens} tokens sum to 1.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"columns": figure})
