"""Limit shapes beyond the table."""

from __future__ import annotations

import numpy as np

from metastable.fields import Rescaled, SelfAttention
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import limit_geometry

from ._rescaled import rescaled_run

ENTRY = Entry(
    title="Limit shapes beyond the table",
    places=["Problem 14"],
    claim="It is asked which limit shapes appear for matrices outside the table.",
    method=(
        "Gaussian value matrices: how many fall under a theorem, and on how many directions "
        "the tokens end."
    ),
    subject="clusters",
    basis="text",
    limits=(
        "Forty Gaussian matrices in d = 4 with 20 tokens up to t = 12; which shapes appear is "
        "counted, not classified."
    ),
    planted="rescaled_run.horizon * 0.01",
    settings={"tokens": 20, "dim": 4, "draws": 40, "horizon": 12.0},
    fast={"draws": 5, "tokens": 12},
)


def other_matrices(*, tokens: int, dim: int, draws: int, horizon: float) -> Finding:
    """Random V: which limit geometries appear, and how often no theorem applies."""
    random, kinds, ranks = np.random.default_rng(9), [], []
    for seed in range(draws):
        value = random.normal(size=(dim, dim))
        kinds.append(limit_geometry(value).kind or "no theorem")
        growth = max(np.linalg.eigvals(value).real.max(), 0.5)
        run = rescaled_run(value, tokens, min(horizon, 10 / growth), seed)
        field = Rescaled(SelfAttention(1.0, value=value))
        x = np.asarray(field.tokens(run.frames[-1], run.times[-1]).points)
        spread = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
        ranks.append(int((spread > 1e-3 * spread[0]).sum()))
    open_share = kinds.count("no theorem") / draws
    names = sorted(set(kinds))
    rows = [
        holds("the table leaves random matrices without a theorem", "Problem 14", open_share > 0,
              "a positive share", open_share),
        holds("tokens flatten onto fewer directions even there", "Problem 14",
              np.mean(ranks) < dim, f"mean rank below {dim}", float(np.mean(ranks))),
    ]  # fmt: skip
    each = [[r for r, k in zip(ranks, kinds, strict=True) if k == name] for name in names]
    figure = plot_bars(
        names,
        {"share of draws": [len(e) / draws for e in each],
         "mean rank of the tokens / d": [float(np.mean(e)) / dim for e in each]},
        "limit geometry", "share", f"{draws} Gaussian V in d = {dim}; rank at 1e−3 of the largest.",
    )  # fmt: skip
    return Finding(rows, {"kinds": figure})
