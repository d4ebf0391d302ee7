"""Gradients of one layer of random attention, from tokens of a given correlation."""

from __future__ import annotations

import math

import numpy as np
import torch


def layer_gradients(tokens: int, width: int, beta: float, gap: float, seeds: int) -> np.ndarray:
    """Mean squares of entries of ∂Σ⟨ξ, y⟩ by W_Q, W_K and W_V: (seeds, 3); 1 − ρ = `gap`.

    Tokens are √ρ c + √(1−ρ) e_i with c, e_i Gaussian; queries and keys have entries of variance
    β/d, values 1/d.
    """
    found = []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int, generator: torch.Generator = generator) -> torch.Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        x = math.sqrt(1 - gap) * draw(1, width) + math.sqrt(gap) * draw(tokens, width)
        scales = (math.sqrt(beta / width), math.sqrt(beta / width), 1 / math.sqrt(width))
        query, key, value = ((s * draw(width, width)).requires_grad_(True) for s in scales)
        logits = (x @ query) @ (x @ key).T / math.sqrt(width)
        loss = torch.sum(draw(tokens, width) * (logits.softmax(dim=-1) @ (x @ value)))
        slopes = torch.autograd.grad(loss, (query, key, value))
        found.append([float(slope.square().mean()) for slope in slopes])
    return np.array(found)
