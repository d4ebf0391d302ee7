"""Opposite tokens attract beyond cosh 2β = d − 2."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import RandomValue
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.random_depth import PairDiffusion, antipodal_beta
from reproductions._random_depth import cosines, many_runs

NEAR = 1e-5  # cosines this near to ±1 are decided

ENTRY = Entry(
    title="Opposite tokens attract beyond cosh 2β = d − 2",
    places=["arXiv:2601.21942, Theorem 2, as a review states it"],
    claim=(
        "Two tokens with orthogonal query and key product end opposite with positive probability "
        "if cosh 2β exceeds d − 2, and never if it stays below."
    ),
    method=(
        "Shares of pairs that end opposite on both sides of the threshold, from a wide angle "
        "(ρ = 0), against zero and against one quadrature of the scale function."
    ),
    subject="random depth",
    basis="report",
    limits=(
        "Not at the threshold itself. The theorem was read in a review that names the two "
        "quantities; that they are compared as they stand is our derivation, which agrees."
    ),
    implies=("antipodal_pairs",),
    planted="RandomValue.beta * 1.7",
    settings={"dims": [5, 6, 8], "below": 0.5, "above": 8.0, "horizon": 30.0, "samples": 4000},
    fast={"dims": [5], "samples": 400},
)


def cosh_threshold(
    *, dims: list[int], below: float, above: float, horizon: float, samples: int
) -> Finding:
    """Shares at cosh 2β of `below` and `above` times d − 2."""
    rows, series = [], []
    for group, dim in enumerate(dims):
        critical = antipodal_beta(dim)
        rows.append(
            judge(f"d = {dim}: cosh 2β at which the rate of log(1+ρ) changes sign", "Theorem 2",
                  dim - 2, math.cosh(2 * critical), relative=1e-12)
        )  # fmt: skip
        for factor in (below, above):
            beta = math.acosh(factor * (dim - 2)) / 2
            rho = cosines(
                many_runs(RandomValue(beta), np.eye(dim)[:2], [horizon], samples=samples,
                          step=0.04 / (dim - 1))[0]
            )  # fmt: skip
            opposite, together = np.mean(rho < -1 + NEAR), np.mean(rho > 1 - NEAR)
            error = math.sqrt(opposite * (1 - opposite) / samples)
            exact = PairDiffusion(beta, dim).antipodal_chance()
            claim = f"d = {dim}, cosh 2β = {factor:g} (d−2): share that ends opposite"
            if factor < 1:
                none = opposite == 0 and together == 1
                rows.append(holds(claim, "Theorem 2", none, 0, float(opposite)))
            else:
                rows.append(judge(claim, "scale function", exact, float(opposite),
                                  absolute=float(4 * error + 1 - opposite - together)))  # fmt: skip
        ratios = np.geomspace(0.3, 30, 60)
        betas = [math.acosh(r * (dim - 2)) / 2 if r * (dim - 2) > 1 else 0.0 for r in ratios]
        chances = [PairDiffusion(b, dim).antipodal_chance() for b in betas]
        series.append(Series(f"d = {dim}", ratios, chances, role="theory", group=group))
    axes = Axis("cosh 2β / (d − 2)", scale="log"), Axis("chance to end opposite from ρ = 0")
    return Finding(rows, {"chance": Lines(*axes, series, marks={"threshold": 1.0})})
