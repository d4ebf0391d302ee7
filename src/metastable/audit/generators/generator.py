"""What a generator is: a budget, and prompts for items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from metastable.audit.target import Target

Tick = Callable[[float], object]  # told the share of the search that is done

FLOAT_BITS = 32  # of one number of a soft vector


@dataclass(frozen=True)
class Elicitation:
    """Prompts for n items: vectors that M reads, and what it should write after them.

    `vectors` (n, k, width); `ids` (n, L) and `lengths` (n,) of the targets; `texts` where a prompt
    is readable, else empty strings; `bits` that a prompt can carry at most.
    """

    vectors: Tensor
    ids: Tensor
    lengths: Tensor
    texts: Sequence[str]
    bits: float


class Generator(Protocol):
    """Makes prompts of `budget` tokens or vectors. `alone`: each item's prompt knows no other."""

    name: ClassVar[str]
    alone: ClassVar[bool]

    @property
    def budget(self) -> int: ...

    def elicit(
        self, target: Target, texts: Sequence[str], seed: int = 0, *, tick: Tick = ...
    ) -> Elicitation: ...


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
    chosen = laws.gather(-1, ids[..., None])[..., 0]
    loss = -(chosen * inside).sum(1) / lengths
    right = ((laws.argmax(-1) == ids) | ~inside).all(1)
    return loss, right
