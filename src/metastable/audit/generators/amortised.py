"""G as a network: items in, prompts out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from metastable.audit.generators.generator import FLOAT_BITS, Elicitation, Tick, mean_nll, no_tick
from metastable.audit.generators.soft import Soft
from metastable.audit.target import Target
from metastable.core import checks
from metastable.models.own.language import seeded


class _Basic(nn.Module):
    """The item's vectors, one after the other, through one hidden layer."""

    def __init__(self, width: int, length: int, out: int, hidden: int = 64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(width * length, hidden), nn.Tanh(), nn.Linear(hidden, out)
        )

    def forward(self, x: Tensor) -> Tensor:  # (n, L, d) → (n, k d)
        return self.net(x)


class _Complex(nn.Module):
    """A recurrent reader in both directions, its states side by side, and two hidden layers."""

    def __init__(self, width: int, length: int, out: int, hidden: int = 64):
        super().__init__()
        self.read = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(2 * hidden * length, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, out),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.read(x)[0])


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
        self, target: Target, texts: Sequence[str], seed: int = 0, *, tick: Tick = no_tick
    ) -> Elicitation:
        soft = Soft(self.budget, self.soft_steps)
        prompts = soft.elicit(target, texts, seed, tick=lambda share: tick(share / 2))
        return self.imitate(target, prompts, seed, tick=lambda share: tick((1 + share) / 2))

    def imitate(
        self, target: Target, found: Elicitation, seed: int = 0, *, tick: Tick = no_tick
    ) -> Elicitation:
        """Prompts of a network that starts from the prompts of `Soft` for the same items."""
        n, k, d = found.vectors.shape
        items = target.model.embed(found.ids).detach()
        kind = {"basic": _Basic, "complex": _Complex}[self.network]
        with seeded(seed):
            network = kind(d, items.shape[1], k * d).to(items.device)
        centre, scale = found.vectors.mean(0), found.vectors.std() + 1e-8
        goal = (found.vectors - centre) / scale
        adam = torch.optim.Adam(network.parameters(), lr=self.rate)
        items = items / (items.std() + 1e-8)

        def descend(loss: Tensor) -> None:
            adam.zero_grad()
            loss.backward()
            adam.step()

        for step in range(self.imitation):
            tick(step / (self.imitation + self.steps))
            descend((network(items).reshape(n, k, d) - goal).square().mean())
        best, lowest = found.vectors, math.inf
        for step in range(self.steps + 1):
            tick((self.imitation + step) / (self.imitation + self.steps))
            vectors = centre + scale * network(items).reshape(n, k, d)
            loss = mean_nll(target, vectors, found.ids, found.lengths)[0].mean()
            if loss.item() < lowest:
                best, lowest = vectors.detach().clone(), loss.item()
            if step < self.steps:
                descend(loss)
        bits = float(FLOAT_BITS * k * d)
        return Elicitation(best, found.ids, found.lengths, [""] * n, bits)
