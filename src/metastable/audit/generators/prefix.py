"""The weakest generator: the item's own beginning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from metastable.audit.generators.generator import Elicitation, Tick, no_tick
from metastable.audit.target import Target
from metastable.core import checks


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
        self, target: Target, texts: Sequence[str], seed: int = 0, *, tick: Tick = no_tick
    ) -> Elicitation:
        k, alphabet = self.budget, target.alphabet
        ids, lengths = target.rows(texts)
        refuse_short(k, texts[int(lengths.argmin())], int(lengths.min()))
        opened = torch.cat([target.opening(len(texts)), ids[:, :k]], 1)
        return Elicitation(
            target.model.embed(opened),
            ids[:, k:],
            lengths - k,
            [alphabet.decode(row) for row in ids[:, :k].tolist()],
            k * math.log2(alphabet.size),
        )


def refuse_short(prefix: int, text: str, length: int) -> None:
    if length <= prefix:
        raise ValueError(
            f"prefix of {prefix} tokens must be shorter than each item; {text[:40]!r} has "
            f"{length}: lower the prefix, or leave short documents out."
        )
