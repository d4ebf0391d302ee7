"""Tokens end in two opposite points although none looks at another."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._random_depth import cosines, many_runs, pair_at
from reproductions.shalova2026._forms import RandomForm

ENTRY = Entry(
    title="Tokens end in two opposite points although none looks at another",
    places=["arXiv:2603.06187, Theorem 4.8, as its sequel states it"],
    claim=(
        "Under a random quadratic form that all tokens share, all of them converge to a pair of "
        "random opposite points, whatever the starts."
    ),
    method=(
        "Many runs of tokens that do not interact: all must be within a small distance of the "
        "first or of its opposite. Shares of ends against the law of a uniform hyperplane."
    ),
    subject="random depth",
    basis="text",
    limits=(
        "Finite time: a few runs in a thousand are still under way. The shares θ/π and 2^{1−n} are "
        "derived here; that the points are measurable by the past is not tested."
    ),
    planted="pair_at.rho + 0.3",
    settings={"dim": 4, "rhos": [-0.8, -0.4, 0.0, 0.4, 0.8], "tokens": 5, "samples": 10000,
              "horizon": 10.0, "step": 0.02},
    fast={"rhos": [-0.5, 0.4], "samples": 2000, "step": 0.02},
)  # fmt: skip


def random_quadratic_form(
    *, dim: int, rhos: list[float], tokens: int, samples: int, horizon: float, step: float
) -> Finding:
    """Who ends where: two tokens at an angle, and several independent ones."""
    field, rows = RandomForm(), []
    rng = np.random.default_rng(5)
    start = rng.standard_normal((samples, tokens, dim))
    start /= np.linalg.norm(start, axis=2, keepdims=True)
    x = many_runs(field, start, [horizon], samples=samples, step=step)[0]
    towards = np.einsum("sd,snd->sn", x[:, 0], x)
    decided = (1 - towards**2).max(axis=1) < 1e-4
    # log(1 − ρ²) falls by 4 in a unit of time with variance 16: few runs are later than this.
    rows.append(
        holds(f"{tokens} tokens end in two opposite points", "Theorem 4.8",
              decided.mean() > 0.97, "97 % by the end of the run", float(decided.mean()))
    )  # fmt: skip
    together = float(np.mean((towards > 0).all(axis=1)))
    exact = 2.0 ** (1 - tokens)
    error = np.sqrt(exact * (1 - exact) / samples)
    rows.append(
        judge(f"share of runs in which all {tokens} end together", "derived, 2^{1−n}", exact,
              together, absolute=4 * error)
    )  # fmt: skip
    shares, errors = [], []
    for rho in rhos:
        ends = cosines(
            many_runs(field, pair_at(rho, dim), [horizon], samples=samples, step=step)[0]
        )
        share, exact = float(np.mean(ends < 0)), float(np.arccos(rho) / np.pi)
        errors.append(np.sqrt(exact * (1 - exact) / samples))
        shares.append(share)
        rows.append(
            judge(f"two tokens at ρ = {rho:g}: share that ends opposite", "derived, angle over π",
                  exact, share, absolute=4 * errors[-1])
        )  # fmt: skip
    fine = np.linspace(-1, 1, 100)
    series = [
        Series("runs", rhos, shares, errors, style="points"),
        Series("arccos ρ / π", fine, np.arccos(fine) / np.pi, role="theory"),
    ]
    axes = Axis("ρ at the start"), Axis("share that ends opposite")
    return Finding(rows, {"shares": Lines(*axes, series, caption=f"No attention, d = {dim}.")})
