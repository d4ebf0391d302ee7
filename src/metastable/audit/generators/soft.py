"""Prompts of vectors, found by gradient descent: for each item, for all, or by a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from metastable.audit.generators.generator import Prefix, Prompts, Texts, Tick, mean_nll, no_tick
from metastable.audit.target import Target
from metastable.core import checks
from metastable.models.own.language import seeded

FLOAT_BITS = 32  # of one number of a vector


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
        _check(self)

    def elicit(
        self, target: Target, texts: Texts, seed: int = 0, *, tick: Tick = no_tick
    ) -> Prompts:
        ids, lengths = target.rows(texts)
        start = _start(target, len(texts), self.budget, seed)
        vectors = self.search(target, start, ids, lengths, tick)
        return Prompts(vectors, ids, lengths, [""] * len(texts), _bits(target, self.budget))

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
            better = (loss.detach() < lowest[active]) | right
            improved = active[better]
            lowest[improved] = loss.detach()[better]
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
        _check(self)

    def elicit(
        self, target: Target, texts: Texts, seed: int = 0, *, tick: Tick = no_tick
    ) -> Prompts:
        start = Prefix(self.prefix).elicit(target, texts)
        x = _start(target, 1, self.budget, seed).requires_grad_(True)
        adam = torch.optim.Adam([x], lr=self.rate * spread(target))
        # The shared vectors stand where the opening stood.
        after = start.vectors[:, 1:]
        prompts = lambda: torch.cat([x.expand(len(texts), -1, -1), after], 1)
        start = replace(
            start, vectors=prompts().detach(), bits=_bits(target, self.budget) + start.bits
        )
        return replace(start, vectors=_improve(adam, prompts, target, start, self.steps, tick))


@dataclass(frozen=True)
class Amortised:
    """G(item) → k vectors, one network for all items.

    Trained directly it learns nothing, since a prompt far from any that works has no useful
    gradient; so it first learns to reproduce the prompts that `Soft` found, then goes on with
    −mean log p. Protected items and controls are learned alike. Bits: 32 k d for each item, which
    G computes from the item itself.
    """

    budget: int
    network: Literal["basic", "complex"] = "basic"
    imitation: int = 300
    steps: int = 40
    rate: float = 1e-3
    soft_steps: int = 100
    name: ClassVar[str] = "amortised"
    alone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("budget", "imitation", "steps"):
            checks.integer(name, getattr(self, name), 1)
        if self.network not in ("basic", "complex"):
            raise ValueError(f"network must be basic or complex; got {self.network!r}.")

    def elicit(
        self, target: Target, texts: Texts, seed: int = 0, *, tick: Tick = no_tick
    ) -> Prompts:
        soft = Soft(self.budget, self.soft_steps)
        prompts = soft.elicit(target, texts, seed, tick=lambda share: tick(share / 2))
        return self.imitate(target, prompts, seed, tick=lambda share: tick((1 + share) / 2))

    def imitate(
        self, target: Target, soft: Prompts, seed: int = 0, *, tick: Tick = no_tick
    ) -> Prompts:
        """Prompts of a network that starts from the prompts of `Soft` for the same items."""
        n, k, d = soft.vectors.shape
        items = target.model.embed(soft.ids).detach()
        with seeded(seed):
            network = _network(self.network, d, items.shape[1], k * d).to(items.device)
        center, scale = soft.vectors.mean(0), soft.vectors.std() + 1e-8
        goal = (soft.vectors - center) / scale
        adam = torch.optim.Adam(network.parameters(), lr=self.rate)
        items = items / (items.std() + 1e-8)
        write = lambda: network(items).reshape(n, k, d)
        total = self.imitation + self.steps
        for step in range(self.imitation):
            tick(step / total)
            _descend(adam, (write() - goal).square().mean())
        prompts = lambda: center + scale * write()
        rest = lambda share: tick((self.imitation + share * self.steps) / total)
        best = _improve(adam, prompts, target, soft, self.steps + 1, rest)
        return Prompts(best, soft.ids, soft.lengths, [""] * n, _bits(target, k))


class _Reader(nn.Module):
    """The states of a recurrent net that reads in both directions, side by side."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.read = nn.GRU(width, hidden, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:  # (n, L, d) → (n, L, 2 hidden)
        return self.read(x)[0]


def _network(kind: str, width: int, length: int, out: int, hidden: int = 64) -> nn.Module:
    """(n, L, d) → (n, k d): through one hidden layer, or through a reader and two of them."""
    if kind == "basic":
        layers = [nn.Linear(width * length, hidden), nn.Tanh(), nn.Linear(hidden, out)]
        return nn.Sequential(nn.Flatten(), *layers)
    reader = [_Reader(width, hidden), nn.Flatten(), nn.Linear(2 * hidden * length, 256), nn.ReLU()]
    return nn.Sequential(*reader, nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, out))


def _improve(
    adam: Any, prompts: Callable[[], Tensor], target: Target, items: Prompts, tries: int, tick: Tick
) -> Tensor:
    """The vectors of lowest mean loss among `tries`, with a step of Adam between them."""
    best, lowest = items.vectors, math.inf
    for k in range(tries):
        tick(k / tries)
        vectors = prompts()
        loss = mean_nll(target, vectors, items.ids, items.lengths)[0].mean()
        if loss.item() < lowest:
            best, lowest = vectors.detach().clone(), loss.item()
        if k + 1 < tries:
            _descend(adam, loss)
    return best


def _descend(adam: Any, loss: Tensor) -> None:
    adam.zero_grad()
    loss.backward()
    adam.step()


def _check(generator: Soft | Shared) -> None:
    checks.integer("vectors", generator.budget, 1)
    checks.integer("steps", generator.steps, 1)
    checks.positive("rate", generator.rate)


def _bits(target: Target, vectors: int) -> float:
    return float(FLOAT_BITS * vectors * target.model.width)


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
