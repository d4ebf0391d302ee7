"""Attention in matrices and token by token."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.measures import Points
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._attention_checks import random_heads
from ._in_context_maps import MultiHeadAttention

ENTRY = Entry(
    title="Attention in matrices and token by token",
    places=["equation 1.2.1", "section 1.2.1"],
    claim=(
        "VX softmax(XᵀQᵀKX/√d_k), softmax taken of each row, is attention: its columns are "
        "the tokens A(X, x_i)."
    ),
    method=(
        "The printed formula in NumPy, rows normalised, and the one with normalised columns, "
        "against the sum over tokens."
    ),
    known="disagree",
    correction=(
        "With VX on the left each column of the pattern must hold the weights of one query: "
        "XᵀKᵀQX with columns that sum to one."
    ),
    subject="networks",
    basis="text",
    limits="One random set of eight tokens in d = 5 with two heads; an identity.",
    planted="Points.points * 1.1",
    settings={"tokens": 8, "dim": 5, "keys": 3, "heads": 2, "seed": 0},
)


def attention_formula(*, tokens: int, dim: int, keys: int, heads: int, seed: int) -> Finding:
    """The matrix formula as printed, its columns normalised, and the sum over tokens."""
    random = np.random.default_rng(seed)
    query, key, value, output = arrays = random_heads(random, heads, keys, dim)
    x = random.normal(size=(tokens, dim))
    by_sum = np.asarray(MultiHeadAttention(query, key, value, output)(Points(x, on_sphere=False)))
    found = {}
    for name, axis in (("softmax of rows, as printed", 1), ("softmax of columns", 0)):
        total = x.T.copy()  # one token a column, as in the document
        for q, k, v, w in zip(*arrays, strict=True):
            for_token = (k @ x.T).T @ (q @ x.T)  # entry (j, i): ⟨Kx_j, Qx_i⟩
            pattern = for_token.T if axis == 1 else for_token  # XᵀQᵀKX, or its transpose
            total += w @ (v @ x.T) @ softmax(pattern / math.sqrt(keys), axis=axis)
        found[name] = np.abs(total.T - by_sum).max(axis=1)
    pattern = softmax(random.normal(size=(tokens, tokens)), axis=1)
    rows = [
        judge("MAtt(X) of equation 1.2.1 against its tokens A(X, x_i) of 2.1.1: largest error",
              "equations 1.2.1 and 2.1.1", 0.0,
              float(found["softmax of rows, as printed"].max()), absolute=1e-10),
        judge("the same with XᵀKᵀQX and columns that sum to one", "equation 2.1.1", 0.0,
              float(found["softmax of columns"].max()), absolute=1e-10),
        holds("on the left, VX meets rows of the pattern whose columns do not sum to one",
              "section 1.2.1", np.abs(pattern.sum(axis=0) - 1).max() > 0.1, "sums differ from 1",
              float(np.abs(pattern.sum(axis=0) - 1).max())),
    ]  # fmt: skip
    figure = plot_bars(
        [str(i + 1) for i in range(tokens)],
        {name: np.maximum(off, 1e-17).tolist() for name, off in found.items()},
        "token", Axis("largest difference", scale="log", limits=(1e-17, 1e6)),
        f"Two readings of the matrix formula against the sum over tokens, {heads} heads, "
        f"d = {dim}, d_k = {keys}.",
    )  # fmt: skip
    return Finding(rows, {"differences": figure})
