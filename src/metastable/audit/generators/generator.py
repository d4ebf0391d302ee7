"""What a generator is, a budget and prompts for items; and the weakest: the item's beginning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from metastable.audit.target import Target
from metastable.core import checks
from metastable.models.own.language import pick

Texts = Sequence[str]
Tick = Callable[[float], object]  # told the share of the search that is done


@dataclass(frozen=True)
class Prompts:
    """Prompts for n items: vectors that M reads, and what it should write after them."""

    vectors: Tensor  # (n, k, width)
    ids: Tensor  # (n, L) of the targets
    lengths: Tensor  # (n,) of the targets
    texts: Texts  # of prompts that are readable, else empty
    bits: float  # that a prompt can carry at most


class Generator(Protocol):
    """Makes prompts of `budget` tokens or vectors. `alone`: each item's prompt knows no other."""

    name: ClassVar[str]
    alone: ClassVar[bool]

    @property
    def budget(self) -> int: ...

    def elicit(self, target: Target, texts: Texts, seed: int = 0, *, tick: Tick = ...) -> Prompts:
        """Prompts for the texts; `tick` hears how far the search is."""
        ...


def no_tick(share: float) -> None:
    """For searches whose progress nobody follows."""


def mean_nll(
    target: Target, prompts: Tensor, ids: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """−mean log p of each item (n,), and whether greedy decoding would write it (n,).

    Greedy decoding writes the item if and only if each of its tokens is the most likely one after
    the prompt and the tokens before it: no decoding is needed to know.
    """
    laws = target.log_laws(prompts, ids)
    inside = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    loss = -(pick(laws, ids) * inside).sum(1) / lengths
    return loss, ((laws.argmax(-1) == ids) | ~inside).all(1)


@dataclass(frozen=True)
class Prefix:
    """The first k tokens of the item; M should write the rest.

    Discoverable memorisation of Carlini et al. (arXiv:2202.07646). Bits: k log₂ V.
    """

    budget: int
    name: ClassVar[str] = "prefix"
    alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.integer("prefix", self.budget, 1)

    def elicit(
        self, target: Target, texts: Texts, seed: int = 0, *, tick: Tick = no_tick
    ) -> Prompts:
        k, alphabet = self.budget, target.alphabet
        ids, lengths = target.rows(texts)
        refuse_short(k, texts[int(lengths.argmin())], int(lengths.min()))
        vectors = target.model.embed(torch.cat([target.opening(len(texts)), ids[:, :k]], 1))
        readable = [alphabet.decode(row) for row in ids[:, :k].tolist()]
        return Prompts(vectors, ids[:, k:], lengths - k, readable, k * math.log2(alphabet.size))


def refuse_short(prefix: int, text: str, length: int) -> None:
    if length <= prefix:
        raise ValueError(
            f"prefix of {prefix} tokens must be shorter than each item; {text[:40]!r} has "
            f"{length}: lower the prefix, or leave short documents out."
        )
