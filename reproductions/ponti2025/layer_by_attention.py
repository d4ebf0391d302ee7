"""The closed form against genuine attention."""

from __future__ import annotations

import numpy as np

from metastable.comparison.random_matrices import verify
from metastable.core.verdict import judge
from metastable.report.figures.gaussian import plot_attention_errors, plot_effective_tokens
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._slopes import fitted_slope

ENTRY = Entry(
    title="The closed form against genuine attention",
    places=["section 3.2, verification by attention"],
    claim=(
        "The closed form describes what attention does to Gaussian tokens, in the scaling of "
        "the listing too."
    ),
    method=(
        "Softmax attention among N sampled tokens, in the layer as drawn and in one whose "
        "logits have variance below 1; error against N, and the number of tokens each one "
        "attends to."
    ),
    known="disagree",
    correction=(
        "The listing moves samples by the affine map itself, which tests arithmetic only. "
        "With Σ = GGᵀ/√d logits deviate by about 16 and each token attends to one or two "
        "others at any reachable N; where logits are small, attention tends to the closed "
        "form like N^(−1/2)."
    ),
    subject="Gaussian",
    basis="text",
    limits=(
        "Two layers, as drawn (d = 300) and calm (d = 16), up to 16 000 tokens; larger N is out"
        " of reach where logits are large."
    ),
    planted="fitted_slope * 1.3",
    settings={
        "dim": 300,
        "keys": 128,
        "samples": 10000,
        "calm_dim": 16,
        "calm_keys": 8,
        "calm_samples": 16000,
    },
    fast={"dim": 150, "keys": 64, "samples": 1000, "calm_samples": 4000},
)


def layer_by_attention(
    *, dim: int, keys: int, samples: int, calm_dim: int, calm_keys: int, calm_samples: int
) -> Finding:
    """Genuine softmax attention among tokens against the closed form, calm and as drawn."""
    found = verify(
        dim, keys, samples, 2, calm_dim=calm_dim, calm_keys=calm_keys, calm_samples=calm_samples,
        progress=False,
    )  # fmt: skip
    loud, calm = found.loud.rows[-1], found.calm.rows[-1]
    assert loud.velocity is not None and loud.effective is not None and calm.effective is not None
    sizes = np.log([row.samples for row in found.calm.rows])
    rows = [
        holds("tokens of the layer as drawn move as the closed form says", "section 3.2",
              loud.velocity < 0.1, "relative error of the velocity below 0.1", loud.velocity,
              f"logits deviate by {found.loud.deviation:.1f}: each token attends to "
              f"{loud.effective:.1f} others of {loud.samples}"),
    ]  # fmt: skip
    rows += [
        judge(f"with logit variance below 1: exponent of N in the error, {name}", "1/√N", -0.5,
              fitted_slope(sizes, np.log([getattr(row, name) for row in found.calm.rows])),
              absolute=0.1)
        for name in ("mean", "cov", "velocity")
    ]  # fmt: skip
    rows += [
        judge(f"tokens attended to, {name}, of {row.samples}", "derrida1981random",
              row.effective_expected or 0.0, row.effective or 0.0, relative=0.5)
        for name, row in (("calm", calm), ("as drawn", loud))
    ]  # fmt: skip
    figures = {"errors": plot_attention_errors(found), "tokens": plot_effective_tokens(found)}
    return Finding(rows, figures)
