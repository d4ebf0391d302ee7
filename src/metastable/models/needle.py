"""A needle in a haystack, seen in hidden states: what the last token keeps of an early one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from metastable.core import checks
from metastable.core.figure import Axis, Lines, Series
from metastable.core.progress import Bar
from metastable.models.ablate import Ablation
from metastable.models.capture import capture
from metastable.models.folder import load
from metastable.models.network import Network
from metastable.models.prompts import Prompt, read_prompt

DEPTHS = 5  # curves of a figure


@dataclass(frozen=True, eq=False)
class NeedleProfile:
    """Retrieval of a needle by the last token, by filler, place and state; see `needle_profile`."""

    position: np.ndarray  # (P,) s: where the needle begins, as a share of the text
    times: np.ndarray  # (T,) layers
    values: np.ndarray  # (F, P, T)
    tokens: int  # of a text with its needle
    model: str

    @property
    def mean(self) -> np.ndarray:
        """Over fillers, (P, T)."""
        return self.values.mean(axis=0)

    @property
    def error(self) -> np.ndarray:
        """Standard error of the mean, (P, T)."""
        return self.values.std(axis=0, ddof=1) / math.sqrt(len(self.values))

    @property
    def strongest(self) -> int:
        """Index of the state in which the mean over places is largest."""
        return int(self.mean.mean(axis=0).argmax())

    @property
    def contrasts(self) -> dict[str, np.ndarray]:
        """Rows (mean, standard error), each (T,), of what an end has more than the middle third.

        "primacy" of the first place, "recency" of the last; differences within each filler.
        """
        count = len(self.position)
        middle = np.abs(np.arange(count) - (count - 1) / 2) <= max((count - 1) / 6, 0.5)
        base = self.values[:, middle].mean(axis=1)
        rows = {}
        for name, end in (("primacy", 0), ("recency", -1)):
            more = self.values[:, end] - base
            error = more.std(axis=0, ddof=1) / math.sqrt(len(more))
            rows[name] = np.stack([more.mean(axis=0), error])
        return rows

    @property
    def lost(self) -> np.ndarray:
        """Whether both ends stand above the middle, (T,): Student's t over fillers, of one side.

        At 5 % for all states together, by Bonferroni's bound.
        """
        bound = float(student.ppf(1 - 0.05 / len(self.times), len(self.values) - 1))
        return np.all([more > bound * error for more, error in self.contrasts.values()], axis=0)

    def figure(self) -> Lines:
        """Retrieval against position, a curve for each of a few depths up to the strongest."""
        chosen = np.unique(np.linspace(0, self.strongest, DEPTHS).round().astype(int))
        chosen = np.unique([*chosen[chosen > 0], self.strongest, len(self.times) - 1])
        series = [
            Series(f"layer {self.times[k]:g}", self.position, self.mean[:, k],
                   error=self.error[:, k], style="both", shade=i / max(len(chosen) - 1, 1))
            for i, k in enumerate(chosen)
        ]  # fmt: skip
        axes = Axis("position s of the needle"), Axis("retrieval by the last token")
        caption = (
            "How much closer the last token is to the embedding of the needle in the text than to "
            f"that of the control: {self.model}, {self.tokens} tokens, mean of {len(self.values)} "
            "fillers with standard errors."
        )
        return Lines(*axes, series, caption=caption, size=(6.2, 4.0))

    def __str__(self) -> str:
        """One sentence: where and how deep the needle is retrieved, and whether the middle is."""
        k = self.strongest
        if not self.values.any():
            return f"{self.model}: the last token retrieves nothing of the needle, at any depth."
        rows = self.contrasts
        tell = ", ".join(f"{n} {m[k]:.4f} ± {e[k]:.4f}" for n, (m, e) in rows.items())
        layers = self.times[self.lost]
        where = f"in {len(layers)} of {len(self.times)} states" if len(layers) else "in no state"
        return (
            f"{self.model}: retrieval is largest at layer {self.times[k]:g} "
            f"({self.mean[:, k].mean():.4f} over all places; {tell}, over the middle third); both "
            f"ends stand above the middle {where}."
        )


def needle_profile(
    source: Any,
    needle: str | Sequence[int],
    haystack: Sequence[Any],
    positions: int | Sequence[float] = 8,
    *,
    control: str | Sequence[int],
    question: str | Sequence[int] = (),
    tokens: int | None = None,
    depth: int | None = None,
    ablate: Sequence[Ablation] = (),
    progress: bool | None = None,
) -> NeedleProfile:
    """How well the last token knows a needle put at several places of long filler texts.

    R(s, k) = ½E⟨x_N(k) − y_N(k), x̄(0) − ȳ(0)⟩, x the states of a filler with the needle before the
    share s of it, y with the `control` of equal length in its place; N is the last token, k the
    depth, x̄ and ȳ are means of directions over the tokens in which needle and control differ, and
    the mean is over fillers. It is how much closer the last token is to the needle that is there
    than to the one that is not, each text being the control of the other. Of the needle's
    *initial* state, as in `theory.retrieval`: exactly 0 where tokens do not see each other, and at
    k = 0.

    - `needle`, `control`, `question`: texts of two tokens or more, or ids; best a sentence and the
      same with one word changed. The longer of needle and control is cut. The question ends every
      text; without one the filler's last token looks back.
    - `haystack`: fillers, texts or ids, two at least; `tokens` of a whole text, by default as many
      as the shortest filler gives.
    - `positions`: how many places, evenly from the first to the last, or shares s in [0, 1].
    - `depth`, `ablate`: as for `capture`.

    Cost: 2 · places · fillers passes.
    """
    network = load(source)
    needle, control, question = (_bare(network, part) for part in (needle, control, question))
    size = min(len(needle), len(control))
    if not size:
        raise ValueError("needle and control must have at least one token; got none: write more.")
    needle, control = needle[:size], control[:size]
    if needle == control:
        raise ValueError("control must differ from the needle; got the same tokens: choose others.")
    differ = np.flatnonzero(np.array(needle) != np.array(control))
    if len(haystack) < 2 or isinstance(haystack, str):
        raise ValueError(f"haystack must hold two fillers at least; got {len(haystack)}: add some.")
    fillers = [read_prompt(network, filler, tokens or network.positions) for filler in haystack]
    whole = min(map(len, fillers)) + size + len(question)
    if network.positions is not None:
        whole = min(whole, network.positions)
    if tokens is not None:
        if checks.integer("tokens", tokens, 2) > whole:
            raise ValueError(f"tokens must be at most {whole}; got {tokens}: take longer fillers.")
        whole = tokens
    room = whole - size - len(question)
    if room < 2:
        raise ValueError(
            f"tokens must leave room for a filler; got {whole} with {size + len(question)} of "
            "needle and question: take more, or a shorter needle."
        )
    shares = np.linspace(0, 1, positions) if isinstance(positions, int) else np.array(positions)
    if shares.ndim != 1 or len(shares) < 3 or np.any(np.diff(shares) <= 0):
        raise ValueError(f"positions must be three or more, and rise; got {positions}.")
    if shares[0] < 0 or shares[-1] > 1:
        raise ValueError(f"positions must lie in [0, 1]; got {positions}: they are shares.")
    values, times, places = [], np.zeros(0), []
    with Bar("needles", progress) as bar:
        for filler in fillers:
            head, free, tail = _cut(filler, room)
            # A token of the filler always follows where no question does.
            last = len(free) - (0 if question or tail else 1)
            places = [len(head) + round(float(s) * last) for s in shares]
            for place in places:
                before, after = [*head, *free][:place], [*head, *free][place:]
                runs = []
                for put in (needle, control):
                    text = [*before, *put, *after, *question, *tail]
                    runs.append(capture(network, text, depth=depth, ablate=ablate, progress=False))
                    if runs[-1].outcome.name != "done":
                        raise ValueError(f"every text must pass; got {runs[-1].outcome.message}")
                first = [np.asarray(run.frames[0].points)[place + differ].mean(0) for run in runs]
                ends = [np.stack([frame.points[-1] for frame in run.frames]) for run in runs]
                times = np.asarray(runs[0].times)
                values.append((ends[0] - ends[1]) @ (first[0] - first[1]) / 2)
                bar.update(len(values) / (len(fillers) * len(shares)))
    return NeedleProfile(
        position=np.array(places) / whole,
        times=times,
        values=np.reshape(values, (len(fillers), len(shares), len(times))),
        tokens=whole,
        model=network.name,
    )


def _bare(network: Network, part: str | Sequence[int]) -> list[int]:
    """Ids of a text without the special tokens around it; ids as they are."""
    if not isinstance(part, str):
        return [checks.integer("ids", number, 0) for number in part]
    if not part:
        return []
    read = read_prompt(network, part)
    return [i for i, special in zip(read.ids, read.special, strict=True) if not special]


def _cut(filler: Prompt, room: int) -> tuple[list[int], list[int], list[int]]:
    """Special tokens before, `room` tokens less those, special tokens after."""
    ids, special = list(filler.ids), list(filler.special)
    first = next((k for k, mark in enumerate(special) if not mark), 0)
    last = next((k for k, mark in enumerate(reversed(special)) if not mark), 0)
    head, tail = ids[:first], ids[len(ids) - last :]
    free = ids[first : len(ids) - last]
    return head, free[: room - len(head) - len(tail)], tail
