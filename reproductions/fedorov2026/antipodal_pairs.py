"""Two tokens may end opposite to each other."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import RandomValue
from metastable.observe.random_depth import how_tokens_end, pair_exponent
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.random_depth import PairDiffusion, antipodal_beta
from reproductions._random_depth import many_runs

ENTRY = Entry(
    title="Two tokens may end opposite to each other",
    places=["arXiv:2601.21942, abstract"],
    claim=(
        "With random values of which all tokens feel the same, antipodal pairs attract with "
        "positive probability beyond a transition in β and the dimension."
    ),
    method="Rates on both sides of β_c by simulation; shares of ends against the scale function.",
    subject="random depth",
    basis="abstract",
    limits="d up to 8; β at half and one and a half times β_c, not closer.",
    planted="RandomValue.scale = 1.4",
    settings={"dims": [3, 4, 8], "samples": 4000, "pairs": [[3, 2.0], [4, 2.0], [8, 3.0]]},
    fast={"dims": [4], "samples": 200, "pairs": []},
)


def antipodal_pairs(*, dims: list[int], samples: int, pairs: list) -> Finding:
    """The exponent changes its sign at β_c(d), and chances are those of the diffusion."""
    rows = []
    for dim in dims:
        for factor in (0.5, 1.5) if dim > 3 else (1.5,):
            beta = factor * antipodal_beta(dim) if dim > 3 else factor
            found = pair_exponent(RandomValue(beta), dim, True, step=0.04 / (dim - 1),
                                  samples=samples, horizon=8.0 / (dim - 1))  # fmt: skip
            exact = PairDiffusion(beta, dim).antipodal_exponent
            claim = f"d = {dim}, β = {beta:.3g}: rate of log(1+ρ) at the antipode"
            rows.append(judge(claim, "derived", exact, found.rate, absolute=4 * found.error))
            claim = (
                f"d = {dim}, β = {beta:.3g}: opposite tokens {'attract' if exact < 0 else 'repel'}"
            )
            rows.append(holds(claim, "derived", (found.rate < 0) == (exact < 0), exact, found.rate))
    for dim, beta in pairs:
        ends = how_tokens_end(RandomValue(beta), 2, dim, samples=samples, step=0.04 / (dim - 1),
                              orthogonal=True)  # fmt: skip
        low, high = ends.opposite.interval
        exact = PairDiffusion(beta, dim).antipodal_chance()
        claim = f"d = {dim}, β = {beta:g}: share of orthogonal pairs that end opposite"
        # Twice the half width of the 95 % interval is four standard errors.
        rows.append(judge(claim, "derived", exact, ends.opposite.value, absolute=high - low))
    start = np.random.default_rng(7).standard_normal((samples, 3, 4))
    start /= np.linalg.norm(start, axis=2, keepdims=True)
    x = many_runs(RandomValue(2.0), start, [40.0], samples=samples, step=0.02)[0]
    far = np.linalg.norm(x + x[:, :1], axis=2) < 1e-6
    near = np.linalg.norm(x - x[:, :1], axis=2) < 1e-6
    opposite = int(((near | far).all(axis=1) & far.any(axis=1)).sum())
    rows.append(holds("three tokens never end in opposite groups", "derived", opposite == 0, 0,
                      opposite))  # fmt: skip
    betas = np.linspace(0.0, 5.0, 81)
    series = [
        Series(f"d = {dim}", betas,
               [PairDiffusion(b, dim).antipodal_chance() for b in betas], group=k)
        for k, dim in enumerate((3, 4, 8, 16))
    ]  # fmt: skip
    axes = Axis("β"), Axis("chance to end opposite from ρ = 0")
    return Finding(rows, {"chance": Lines(*axes, series)})
