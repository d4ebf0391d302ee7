"""How the next id is chosen: the most likely, a random one, or the best of several texts.

A decoding knows no model: `following` maps the ids so far (rows, t), t ≥ 0, to log-probabilities
(rows, vocabulary) of the next. It may be called with k rows for each row of `start`, in the order
row 0, row 0, …, row 1, row 1, ….
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from metastable.core import checks

Following = Callable[[Tensor], Tensor]


class Decoding(Protocol):
    """Extends the ids of `start` (rows, t) to (rows, t + length)."""

    def extend(
        self, following: Following, start: Tensor, length: int, stop: int | None
    ) -> Tensor: ...


@dataclass(frozen=True)
class Greedy:
    """The most likely id, each time."""

    def extend(self, following: Following, start: Tensor, length: int, stop: int | None) -> Tensor:
        return _one_by_one(following, start, length, stop, lambda scores: scores.argmax(-1))


@dataclass(frozen=True)
class Sample:
    """A random id from p^{1/temperature}, of the most likely ones alone.

    `top_k` keeps the k most likely ids. `top_p` keeps the fewest most likely ids that carry
    together at least that share of the mass, after temperature and `top_k` (Holtzman et al.,
    arXiv:1904.09751). The same seed gives the same text.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        checks.positive("temperature", self.temperature, "Greedy() is the limit of 0.")
        checks.seed(self.seed)
        if self.top_k is not None:
            checks.integer("top_k", self.top_k, 1)
        if self.top_p is not None and not 0.0 < checks.real("top_p", self.top_p) <= 1.0:
            raise ValueError(f"top_p must lie in (0, 1]; got {self.top_p}.")

    def extend(self, following: Following, start: Tensor, length: int, stop: int | None) -> Tensor:
        source = torch.Generator(start.device).manual_seed(self.seed)

        def choose(scores: Tensor) -> Tensor:
            return self.law(scores).multinomial(1, generator=source)[:, 0]

        return _one_by_one(following, start, length, stop, choose)

    def law(self, log_probs: Tensor) -> Tensor:
        """The probabilities (rows, vocabulary) that are drawn from."""
        ranked, order = log_probs.sort(-1, descending=True)
        p = (ranked / self.temperature).softmax(-1)
        if self.top_k is not None:
            p[:, self.top_k :] = 0.0
            p /= p.sum(-1, keepdim=True)
        if self.top_p is not None:
            p[p.cumsum(-1) - p >= self.top_p] = 0.0  # what comes before already suffices
            p /= p.sum(-1, keepdim=True)
        return torch.zeros_like(p).scatter(-1, order, p)


@dataclass(frozen=True)
class Beam:
    """The most likely text among the `width` best beginnings of each length.

    Scores are plain sums of log-probabilities, without a bonus for length. A width of
    vocabulary^(length − 1) finds the most likely text of all.
    """

    width: int = 4

    def __post_init__(self) -> None:
        checks.integer("width", self.width, 1)

    def extend(self, following: Following, start: Tensor, length: int, stop: int | None) -> Tensor:
        rows, k = len(start), self.width
        texts = start.repeat_interleave(k, 0)
        scores = torch.full((rows, k), -math.inf, device=start.device)
        scores[:, 0] = 0.0  # the beams are still equal: one of them is enough
        for t in range(length):
            step = following(texts)
            if stop is not None and t > 0:
                ended = texts[:, -1:] == stop
                ids = torch.arange(step.shape[1], device=step.device)
                step = torch.where(ended, torch.where(ids == stop, 0.0, -math.inf), step)
            vocabulary = step.shape[1]
            totals = scores[..., None] + step.reshape(rows, k, vocabulary)
            scores, best = totals.reshape(rows, -1).topk(k)
            first = torch.arange(rows, device=best.device)[:, None] * k
            parent = (first + best // vocabulary).reshape(-1)
            texts = torch.cat([texts[parent], (best % vocabulary).reshape(-1, 1)], 1)
        return texts.reshape(rows, k, -1)[:, 0]


def _one_by_one(
    following: Following,
    start: Tensor,
    length: int,
    stop: int | None,
    choose: Callable[[Tensor], Tensor],
) -> Tensor:
    texts = start
    ended = torch.zeros(len(start), dtype=torch.bool, device=start.device)
    for _ in range(length):
        fresh = choose(following(texts))
        if stop is not None:
            fresh = torch.where(ended, stop, fresh)
            ended = ended | (fresh == stop)
        texts = torch.cat([texts, fresh[:, None]], 1)
    return texts
