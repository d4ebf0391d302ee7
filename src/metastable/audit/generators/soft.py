"""Soft prompts: vectors found by gradient descent, for each item or for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from metastable.audit.generators.generator import FLOAT_BITS, Elicitation, Tick, mean_nll, no_tick
from metastable.audit.target import Target
from metastable.core import checks
from metastable.models.own.language import seeded


@dataclass(frozen=True)
class Soft:
    """k vectors for each item, found by Adam on −mean log p of the item.

    `rate` is in units of the spread of M's own embeddings, which differs fiftyfold between models.

    All items of a batch go together, and each ends when greedy decoding writes it; the vectors of
    lowest loss are kept. Bits: 32 k d, which is far above what an item of 48 characters holds, so
    that only small k tell memory from obedience: 1 or 2 separate best, and by k = 32 M may write
    anything.
    """

    budget: int
    steps: int = 100
    rate: float = 0.1
    name: ClassVar[str] = "soft"
    alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.integer("vectors", self.budget, 1)
        checks.integer("steps", self.steps, 1)
        checks.positive("rate", self.rate)

    def elicit(
        self, target: Target, texts: Sequence[str], seed: int = 0, *, tick: Tick = no_tick
    ) -> Elicitation:
        ids, lengths = target.rows(texts)
        start = _start(target, len(texts), self.budget, seed)
        vectors = self.search(target, start, ids, lengths, tick)
        bits = float(FLOAT_BITS * self.budget * target.model.width)
        return Elicitation(vectors, ids, lengths, [""] * len(texts), bits)

    def search(
        self, target: Target, start: Tensor, ids: Tensor, lengths: Tensor, tick: Tick = no_tick
    ) -> Tensor:
        """The vectors (n, k, d) of lowest loss along the way from `start`."""
        rate = self.rate * spread(target)
        x, best = start.clone(), start.clone()
        mean, square = torch.zeros_like(x), torch.zeros_like(x)
        lowest = torch.full((len(x),), math.inf, device=x.device)
        active = torch.arange(len(x), device=x.device)
        for step in range(1, self.steps + 2):
            y = x[active].requires_grad_(True)
            loss, right = mean_nll(target, y, ids[active], lengths[active])
            better = loss.detach() < lowest[active]
            improved = active[better | right]
            lowest[improved] = loss.detach()[better | right]
            best[improved] = x[improved]
            if bool(right.all()) or step > self.steps:
                break
            # Losses of different items share no variable: one backward pass serves them all.
            (g,) = torch.autograd.grad(loss.sum(), y)
            active, g = active[~right], g[~right]
            # Adam by hand, since finished items leave the batch.
            mean[active] = 0.9 * mean[active] + 0.1 * g
            square[active] = 0.99 * square[active] + 0.01 * g**2
            scale = (square[active] / (1 - 0.99**step)).sqrt() + 1e-8
            x[active] -= rate * mean[active] / (1 - 0.9**step) / scale
            tick(step / self.steps)
        return best


@dataclass(frozen=True)
class Shared:
    """k vectors for all items, before the first `prefix` tokens of each.

    After Ozdayi et al. (arXiv:2305.11759), whose prompts raise extraction and lower it. They are
    found on protected items and controls alike, so that they favour neither. Bits: 32 k d for all,
    and prefix · log₂ V for each.
    """

    budget: int
    prefix: int = 8
    steps: int = 100
    rate: float = 0.05
    name: ClassVar[str] = "shared"
    alone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.integer("vectors", self.budget, 1)
        checks.integer("steps", self.steps, 1)
        checks.positive("rate", self.rate)

    def elicit(
        self, target: Target, texts: Sequence[str], seed: int = 0, *, tick: Tick = no_tick
    ) -> Elicitation:
        from metastable.audit.generators.prefix import Prefix

        begun = Prefix(self.prefix).elicit(target, texts)
        x = _start(target, 1, self.budget, seed).requires_grad_(True)
        adam = torch.optim.Adam([x], lr=self.rate * spread(target))
        rows = len(texts)
        # The shared vectors stand where the opening stood.
        told = begun.vectors[:, 1:]
        best, lowest = x.detach().clone(), math.inf
        for step in range(self.steps):
            tick(step / self.steps)
            prompt = torch.cat([x.expand(rows, -1, -1), told], 1)
            loss = mean_nll(target, prompt, begun.ids, begun.lengths)[0].mean()
            if loss.item() < lowest:
                best, lowest = x.detach().clone(), loss.item()
            adam.zero_grad()
            loss.backward()
            adam.step()
        vectors = torch.cat([best.expand(rows, -1, -1), told], 1)
        bits = FLOAT_BITS * self.budget * target.model.width + begun.bits
        return Elicitation(vectors, begun.ids, begun.lengths, begun.texts, bits)


def _start(target: Target, rows: int, k: int, seed: int) -> Tensor:
    """The opening's vector k times over, with a little noise to tell the places apart."""
    with seeded(seed):
        noise = torch.randn(rows, k, target.model.width)
    opening = target.model.embed(target.opening(rows)).detach()
    return opening + 0.1 * spread(target) * noise.to(opening)


def spread(target: Target) -> float:
    """Standard deviation of the numbers in M's embeddings of tokens."""
    ids = torch.arange(target.alphabet.size, device=target.device)
    return float(target.model.embed(ids[None]).std())
