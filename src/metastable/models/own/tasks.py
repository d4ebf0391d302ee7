"""Small problems with known answers: copy, reverse, and recall over a distance.

Id 0 opens the answer; ids from 1 on are symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from metastable.core import checks
from metastable.models.own.language import LanguageModel
from metastable.models.own.transformer import EncoderDecoder

OPEN = 0


@dataclass(frozen=True)
class Batch:
    """Texts to learn."""

    target: Tensor  # (rows, n + 1), of which all but the first id is to be predicted
    source: Tensor | None = None  # (rows, m), read by an encoder or written before the target


class Task(Protocol):
    """Makes batches from random numbers: the same numbers, the same batch."""

    def __call__(self, random: np.random.Generator, rows: int) -> Batch: ...


@dataclass(frozen=True)
class Copy:
    """Say `length` random symbols again."""

    symbols: int = 8
    length: int = 10

    def __post_init__(self) -> None:
        checks.integer("symbols", self.symbols, 2)
        checks.integer("length", self.length, 1)

    @property
    def vocabulary(self) -> int:
        return self.symbols + 1

    def __call__(self, random: np.random.Generator, rows: int) -> Batch:
        symbols = random.integers(1, self.symbols + 1, (rows, self.length))
        return _batch(symbols, self.answer(symbols))

    def answer(self, symbols: np.ndarray) -> np.ndarray:
        return symbols


@dataclass(frozen=True)
class Reverse(Copy):
    """Say `length` random symbols backwards."""

    def answer(self, symbols: np.ndarray) -> np.ndarray:
        return symbols[:, ::-1]


@dataclass(frozen=True)
class Recall:
    """Say the first symbol again after `lag` places: the long-term dependency in its purest form.

    The symbol, lag − 1 random fillers from another alphabet of the same size, the opening id; then
    the symbol is due. Chance is 1/symbols. After Hochreiter and Schmidhuber (1997), experiment 2.
    """

    lag: int
    symbols: int = 8

    def __post_init__(self) -> None:
        checks.integer("symbols", self.symbols, 2)
        checks.integer("lag", self.lag, 1)

    @property
    def vocabulary(self) -> int:
        return 2 * self.symbols + 1

    def __call__(self, random: np.random.Generator, rows: int) -> Batch:
        k = self.symbols
        source = random.integers(k + 1, 2 * k + 1, (rows, self.lag))
        source[:, 0] = random.integers(1, k + 1, rows)
        return _batch(source, source[:, :1])


def _batch(source: np.ndarray, answer: np.ndarray) -> Batch:
    target = np.pad(answer, ((0, 0), (1, 0)), constant_values=OPEN)
    return Batch(torch.from_numpy(target), torch.from_numpy(source))


def pose(model: LanguageModel | EncoderDecoder, batch: Batch) -> tuple[LanguageModel, Tensor, int]:
    """The language model, its ids, and from which place on they are to be predicted."""
    if isinstance(model, EncoderDecoder):
        if batch.source is None:
            raise ValueError("an encoder needs a source; got a batch without one.")
        return model.given(batch.source), batch.target, 1
    if batch.source is None:
        return model, batch.target, 1
    return model, torch.cat([batch.source, batch.target], 1), batch.source.shape[1] + 1


@torch.no_grad()
def accuracy(
    model: LanguageModel | EncoderDecoder, task: Task, rows: int = 256, seed: int = 0
) -> float:
    """Share of ids that the model, writing greedily by itself, gets right on a fresh batch."""
    checks.integer("rows", rows, 1)
    # A stream of its own: training draws from [seed, step].
    batch = task(np.random.default_rng([checks.seed(seed), 0, 1]), rows)
    language, ids, first = pose(model, batch)
    said = language.generate(ids[:, :first], ids.shape[1] - first)
    return float((said == ids[:, first:]).double().mean())
