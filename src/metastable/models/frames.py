"""States of a prompt made into frames, or given to a function: what `capture` keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metastable.core import checks
from metastable.measures import Points
from metastable.models.anatomy import part_at
from metastable.models.network import Network
from metastable.models.passes import Passage

CENTRES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "raw": lambda x: x,
    "centred": lambda x: x - x.mean(axis=0),
    "standardised": lambda x: (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12),
}
Layers = str | int | Sequence[int]
Stream = Callable[[float, np.ndarray], Any]


@dataclass(frozen=True, eq=False)
class Lens:
    """The choices of `capture` that act on one state at a time."""

    network: Network
    part: str
    layers: Layers
    stream: Stream | None
    centre: str
    gain: bool
    final_norm: bool
    sphere: bool

    def __post_init__(self) -> None:
        if self.centre not in CENTRES:
            raise ValueError(f"centre must be one of {', '.join(CENTRES)}; got {self.centre!r}.")
        if self.stream is not None:
            checks.function("stream", self.stream, "a function of (depth, states)")
        if isinstance(self.layers, str) and self.layers != "all":
            raise ValueError(f"layers must be 'all', a step or numbers; got {self.layers!r}.")
        if not self.gain:
            anatomy = self.network.anatomy(self.part, need="gain=False")
            assert anatomy is not None
            if anatomy.pre_norm:
                kind = self.network.architecture
                raise ValueError(
                    f"gain must stay for a model that normalises before its layers; {kind} "
                    "has none on the states between them: leave gain=True."
                )

    def chosen(self, count: int) -> set[int]:
        """Which of so many states are kept."""
        layers = self.layers
        if isinstance(layers, str):
            return set(range(count))
        if isinstance(layers, int | np.integer):
            return {*range(0, count, checks.integer("layers", layers, 1)), count - 1}
        numbers = [checks.integer("layers", number, -count) for number in layers]
        if not numbers or max(numbers) >= count:
            raise ValueError(
                f"layers must be numbers from {-count} to {count - 1}, the states of "
                f"{self.network.name}; got {max(numbers, default='none')}."
            )
        return {number % count for number in numbers}

    def norm_of(self, passage: Passage, number: int) -> nn.Module | None:
        """The norm whose gain is to be taken off state `number`, where there is one."""
        anatomy = self.network.anatomy(self.part)
        if self.gain or anatomy is None:
            return None
        if number:
            return part_at(passage.applied[(number - 1) % passage.trained], anatomy.norms[1])
        door = anatomy.embedding_norm
        return None if door is None else part_at(self.network.model, door)


@dataclass(eq=False)
class Collector:
    """What is kept of one prompt: a frame of each chosen state, or what the stream made of it."""

    lens: Lens
    kept: np.ndarray  # which tokens are particles
    depth: int | None
    step: float
    times: list[float] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    chosen: set[int] = field(default_factory=set)
    last: tuple[float, Any, nn.Module | None] | None = None

    def see(self, passage: Passage, x: np.ndarray) -> None:
        """Look at the state that a passage has just arrived at."""
        number = len(passage.times) - 1
        norm = self.lens.norm_of(passage, number)
        self._see(number, self._count(passage), passage.times[-1], x, norm)

    def see_all(self, passage: Passage) -> None:
        """Look at all states of a passage, and at those after attention where it kept them."""
        count = self._count(passage)
        numbered = enumerate(zip(passage.times, passage.states, strict=True))
        seen = [(t, x, self.lens.norm_of(passage, k)) for k, (t, x) in numbered]
        if self.lens.final_norm and passage.final is not None:
            seen[-1] = (seen[-1][0], passage.final, None)
        if passage.middles:
            count = 2 * count - 1
            halves = [t + self.step / 2 for t in passage.times]
            seen += [(t, x, None) for t, x in zip(halves, passage.middles, strict=False)]
            seen.sort(key=lambda one: one[0])
        for number, one in enumerate(seen):
            self._see(number, count, *one)

    def finish(self) -> None:
        """Keep the last state where the passage ended before any that was chosen."""
        if not self.made and self.last is not None:
            self._make(*self.last)

    def _count(self, passage: Passage) -> int:
        """States of a passage that reaches its end."""
        return 1 + round((self.depth or passage.trained) / self.step)

    def _see(
        self, number: int, count: int, depth: float, x: np.ndarray, norm: nn.Module | None
    ) -> None:
        if not number:
            self.chosen = self.lens.chosen(count)
        self.last = (depth, x, norm)
        if number in self.chosen:
            self._make(*self.last)

    def _make(self, depth: float, x: np.ndarray, norm: nn.Module | None) -> None:
        x, lens = np.asarray(x, float), self.lens
        if norm is not None:
            x = (x - _array(norm.get_parameter("bias"))) / _array(norm.get_parameter("weight"))
        x = CENTRES[lens.centre](x[self.kept])
        x = _directions(x, depth) if lens.sphere else x
        self.times.append(depth)
        self.made.append(lens.stream(depth, x) if lens.stream else Points(x, on_sphere=lens.sphere))


def _directions(x: np.ndarray, depth: float) -> np.ndarray:
    largest = np.abs(x).max(axis=1, keepdims=True)
    if not largest.all():
        raise ValueError(
            f"sphere=True needs tokens with a direction; at depth {depth:g} one is zero: keep "
            "lengths with sphere=False, or use centre='raw'."
        )
    x = x / largest  # squares of what no norm holds back would overflow
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _array(weight: Tensor) -> np.ndarray:
    return weight.detach().to("cpu", torch.float64).numpy()
