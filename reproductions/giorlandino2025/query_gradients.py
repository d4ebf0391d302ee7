"""Gradients of queries vanish below the freezing point."""

from __future__ import annotations

import math

import numpy as np
import torch

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.softmax import softmax_overlaps, softmax_spread

ENTRY = Entry(
    title="Gradients of queries vanish below the freezing point",
    places=["arXiv:2505.24333, Figure 3", "public code, gradients.ipynb"],
    claim=(
        "The squared gradient of the query matrix at initialisation, suitably scaled, tends to a "
        "constant times 1 − β_c/β above the critical strength of queries and keys, and to 0 below."
    ),
    method=(
        "Autograd through one layer of random attention against β E Σ_jl (∂w_j/∂s_l)², exact at n "
        "logits; that against (1 − 1/κ)/3 at n = 10¹² and its power of n below freezing."
    ),
    subject="random depth",
    basis="code",
    limits=(
        "A linear loss after one layer without skip or norm, independent tokens; the language "
        "model of the paper is not run. The constant 1/3 is derived here, and a "
        "term of order 1/d was added to the theory after the first run had shown it."
    ),
    planted="query_gradient.beta * 1.4",
    settings={"tokens": 256, "width": 512, "ratios": [0.3, 0.6, 1.0, 1.5, 2.5], "seeds": 8},
    fast={"tokens": 128, "width": 256, "seeds": 5},
)


def query_gradients(*, tokens: int, width: int, ratios: list[float], seeds: int) -> Finding:
    """Mean square of the gradient over d², in units in which it is κ E Σ_jl (∂w_j/∂s_l)²."""
    rows, means, errors = [], [], []
    many = 1e12
    critical = math.sqrt(2 * math.log(tokens))
    large = math.sqrt(2 * math.log(many))
    for ratio in ratios:
        if ratio == 1:
            continue
        found = ratio * softmax_spread((ratio * large) ** 2, many)
        limit = max(0.0, 1 - 1 / ratio) / 3
        # The approach is like 1/log n (0.04 there), with a factor of order one.
        rows.append(
            judge(f"κ = {ratio:g}: limit of the scaled gradient, at n = 10¹²", "(1 − β_c/β)/3",
                  limit, found, absolute=0.03)
        )  # fmt: skip
    for ratio in ratios:
        beta = ratio * critical
        squares = [query_gradient(tokens, width, beta, seed) for seed in range(seeds)]
        mean, error = np.mean(squares), np.std(squares, ddof=1) / math.sqrt(seeds)
        # Keys and values overlap by the same chance, ± d^{−1/2}: their squares add (1 − A)/d.
        seen = (1 - softmax_overlaps(beta**2, 0.0, tokens)[0]) / width
        exact = beta * (softmax_spread(beta**2, tokens) + seen)
        bias = beta**2 * 3 / width + 4 / width
        rows.append(
            judge(f"κ = {ratio:g}: gradient of queries, n = {tokens}", "derived, exact at n logits",
                  exact, float(mean), absolute=float(4 * error + min(bias, 0.3) * exact))
        )  # fmt: skip
        means.append(mean / critical)
        errors.append(error / critical)
    low, power = 0.3, 2 * 0.3**2 - 1
    sizes = np.array([1e6, 1e12])
    values = [softmax_spread(2 * low**2 * math.log(n), float(n)) for n in sizes]
    slope = math.log(values[1] / values[0]) / math.log(sizes[1] / sizes[0])
    rows.append(judge("power of n below freezing, κ = 0.3", "derived, 2κ² − 1", power, slope,
                      absolute=0.02))  # fmt: skip
    fine = np.linspace(0.05, max(ratios), 40)
    series = [Series(f"networks, n = {tokens}", ratios, means, errors, style="points")]
    for n, name in ((tokens, f"exact, n = {tokens}"), (many, "exact, n = 10¹²")):
        exact = [k * softmax_spread(2 * k**2 * math.log(n), n) for k in fine]
        series.append(Series(name, fine, exact, role="theory"))
    limit = np.maximum(1 - 1 / fine, 0) / 3
    series.append(Series("n = ∞", fine, limit, role="theory", dash="dashdot"))
    axes = Axis("κ, deviation of logits over √(2 log n)"), Axis("squared gradient of W_Q, scaled")
    return Finding(rows, {"gradients": Lines(*axes, series)})


def query_gradient(tokens: int, width: int, beta: float, seed: int) -> float:
    """Mean square of ∂ Σ⟨ξ, y⟩/∂W_Q over that of all factors but β E Σ (∂w_j/∂s_l)²."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    x, scale = draw(tokens, width), math.sqrt(beta / width)
    query = (scale * draw(width, width)).requires_grad_(True)
    key, value = scale * draw(width, width), draw(width, width) / math.sqrt(width)
    logits = (x @ query) @ (x @ key).T / math.sqrt(width)
    loss = torch.sum(draw(tokens, width) * (logits.softmax(dim=-1) @ (x @ value)))
    (gradient,) = torch.autograd.grad(loss, query)
    # Σ_i x_i ⊗ Σ_j δ_ij k_j/√d with |x_i|² = d, |k_j|² = βd and δ_ij of variance d ∂w².
    return float(gradient.square().mean() / tokens)
