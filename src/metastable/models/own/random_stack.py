"""Transformers at random weights: overlaps of tokens layer by layer, over many draws of weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metastable.core import checks
from metastable.theory.propagation import RandomBlock

ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "tanh": torch.tanh,
    "linear": lambda x: x,
}


def random_stack(
    block: RandomBlock,
    width: int,
    depth: int,
    *,
    heads: int = 1,
    hidden: int | None = None,
    correlation: float = 0.0,
    seeds: int = 10,
    seed: int = 0,
    gradients: bool = False,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
) -> dict[str, np.ndarray]:
    """Mean square q and mean pairwise overlap p of the stream of `seeds` random networks.

    Matrices are independent Gaussians, fresh in every block: query and key entries of variance
    β/d, values σ_v²/d, outputs 1/d, feed-forward σ_w²/d and σ_w²/`hidden` (4d unless told);
    logits are ⟨q_i, k_j⟩/√d_h with d_h = d/heads; no bias, gain or mask. Tokens start at
    √ρ c + √(1−ρ) e_i with c, e_i Gaussian, scaled to mean square 1; normalisation divides a token
    by its root mean square. LayerNorm also takes off its mean, which for weights without a
    preferred direction is the same in one dimension fewer.

    Returns "q", "p" and "correlation" (mean over pairs of the cosine), each (seeds, depth + 1);
    with `gradients` also "gradient": the mean square, by token and axis, of the gradient of
    Σ ⟨ξ_i, x_i⟩ at the last block, ξ_i standard Gaussian.
    Cost: 48 blocks of width 512 and 128 tokens take about 1 s a seed on one core.
    """
    n, d, h = block.tokens, checks.integer("width", width, 2), checks.integer("heads", heads, 1)
    if d % h:
        raise ValueError(f"width must be a multiple of heads ({h}); got {d}.")
    wide = 4 * d if hidden is None else checks.integer("hidden", hidden, 1)
    activation = ACTIVATIONS[block.activation]
    records: list[list[list[float]]] = []
    for k in range(seeds):
        generator = torch.Generator(device).manual_seed(1000003 * seed + k)

        def draw(*shape: int, scale: float = 1.0, generator: Any = generator) -> Tensor:
            return scale * torch.randn(*shape, generator=generator, dtype=dtype, device=device)

        def attention(z: Tensor, draw: Any = draw) -> Tensor:
            q, k, v = (
                (z @ draw(d, d, scale=s / math.sqrt(d))).unflatten(-1, (h, -1)).transpose(0, 1)
                for s in (math.sqrt(block.beta), math.sqrt(block.beta), block.value)
            )
            weights = (q @ k.transpose(-2, -1) / math.sqrt(d // h)).softmax(-1)  # (h, n, n)
            return (weights @ v).transpose(0, 1).flatten(1) @ draw(d, d, scale=d**-0.5)

        def feed_forward(z: Tensor, draw: Any = draw) -> Tensor:
            inner = activation(z @ draw(d, wide, scale=block.weight / math.sqrt(d)))
            return inner @ draw(wide, d, scale=block.weight / math.sqrt(wide))

        x = math.sqrt(correlation) * draw(1, d) + math.sqrt(1 - correlation) * draw(n, d)
        x = _norm(x).requires_grad_(gradients)
        states = [x]
        for _ in range(depth):
            for scale, sublayer in (
                (block.attention, attention),
                (block.mlp, feed_forward),
            ):
                if scale:
                    x = _add(block, x, sublayer, scale)
            states.append(x)
        rows = [_overlaps(state.detach()) for state in states]
        if gradients:
            slopes = torch.autograd.grad(x, states, grad_outputs=draw(n, d))
            rows = [[*row, float(g.square().mean())] for row, g in zip(rows, slopes, strict=True)]
        records.append(rows)
    names = ["q", "p", "correlation", "gradient"]
    return dict(zip(names, np.moveaxis(np.asarray(records), 2, 0), strict=False))


def _add(block: RandomBlock, x: Tensor, sublayer: Any, scale: float) -> Tensor:
    out = sublayer(_norm(x) if block.placement in ("pre", "peri") else x)
    out = block.skip * x + scale * (_norm(out) if block.placement == "peri" else out)
    return _norm(out) if block.placement == "post" else out


def _norm(x: Tensor) -> Tensor:
    return x / x.square().mean(-1, keepdim=True).sqrt()


def _overlaps(x: Tensor) -> list[float]:
    """Mean square, mean overlap of two tokens, mean cosine of two tokens, in float64."""
    x = x.double()
    n, d = x.shape
    cosines = _norm(x)

    def pairs(y: Tensor) -> float:  # Σ_{i≠j} ⟨y_i, y_j⟩ without the n × n array
        return float((y.sum(0).square().sum() - y.square().sum()) / (n * (n - 1) * d))

    return [float(x.square().mean()), pairs(x), pairs(cosines)]
