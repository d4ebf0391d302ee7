"""Readable prompts by greedy coordinate gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from metastable.audit.generators.generator import Prompts, Texts, Tick, mean_nll, no_tick
from metastable.audit.target import Target
from metastable.core import checks

Aims = tuple[Tensor, Tensor]  # ids (n, L) and lengths (n,) of what M should write


@dataclass(frozen=True)
class Discrete:
    """k printable tokens after the opening, searched so that M writes the whole item after them.

    Each step asks the gradient which replacements of one token promise most, tries `tries` of the
    `keep` best at random places, and keeps the best if it is better (Zou et al.,
    arXiv:2307.15043). A prompt is taken only if its text, encoded again, gives the same tokens:
    what is reported can be typed. The start is what stands before the item in its document, or its
    own beginning. Bits: k log₂ R with R printable tokens. The search is long: `items` asks only for
    so many protected items, and as many controls, drawn at random.
    """

    budget: int
    steps: int = 60
    tries: int = 48
    keep: int = 16
    items: int | None = None
    name: ClassVar[str] = "discrete"
    alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("budget", "steps", "tries", "keep"):
            checks.integer(name, getattr(self, name), 1)

    def elicit(
        self,
        target: Target,
        texts: Texts,
        seed: int = 0,
        before: Texts | None = None,
        *,
        tick: Tick = no_tick,
    ) -> Prompts:
        ids, lengths = target.rows(texts)
        allowed = torch.tensor(target.alphabet.readable(), device=ids.device)
        random = torch.Generator().manual_seed(seed)
        prompts = self._start(target, ids, allowed, before or [""] * len(texts))
        loss, right = _value(target, prompts, (ids, lengths))
        for step in range(self.steps):
            tick(step / self.steps)
            active = (~right).nonzero()[:, 0]
            if not len(active):
                break
            aims = ids[active], lengths[active]
            tried = self._candidates(target, prompts[active], aims, allowed, random)
            n, m, k = tried.shape
            many = active.repeat_interleave(m)
            aims = ids[many], lengths[many]
            losses, rights = _value(target, tried.reshape(n * m, k), aims)
            # An exact hit beats any loss.
            ranked = torch.where(rights, losses - 1e6, losses).reshape(n, m)
            pick = ranked.argmin(1)
            rows = torch.arange(n, device=ids.device)
            lowest, exact = losses.reshape(n, m)[rows, pick], rights.reshape(n, m)[rows, pick]
            take = (lowest < loss[active]) | exact
            prompts[active[take]] = tried[rows, pick][take]
            loss[active[take]] = lowest[take]
            right[active[take]] = exact[take]
        readable = [target.alphabet.decode(row) for row in prompts.tolist()]
        bits = self.budget * math.log2(len(allowed))
        return Prompts(_opened(target, prompts), ids, lengths, readable, bits)

    def _start(self, target: Target, ids: Tensor, allowed: Tensor, before: Texts) -> Tensor:
        k = self.budget
        begun = ids.repeat(1, -(-k // ids.shape[1]))[:, :k].clone()
        for row, text in zip(begun, before, strict=True):
            end = target.alphabet.encode(text)[-k:]
            if end:
                row[k - len(end) :] = torch.tensor(end, device=row.device)
        begun[~torch.isin(begun, allowed)] = allowed[0]
        for row in begun:
            if not _typed(target, row):
                row[:] = allowed[0]
        return begun

    def _candidates(
        self, target: Target, prompts: Tensor, aims: Aims, allowed: Tensor, random: torch.Generator
    ) -> Tensor:
        """Prompts (n, tries, k), each with one token exchanged for one of promise."""
        n, k = prompts.shape
        x = target.model.embed(prompts).detach().requires_grad_(True)
        opening = target.model.embed(target.opening(n))
        loss, _ = mean_nll(target, torch.cat([opening, x], 1), *aims)
        (g,) = torch.autograd.grad(loss.sum(), x)
        table = target.model.embed(allowed[None])[0]  # (R, d)
        keep = min(self.keep, len(allowed))
        promising = allowed[(-g @ table.T).topk(keep, -1).indices]  # (n, k, keep)
        place = torch.randint(k, (n, self.tries), generator=random).to(x.device)
        which = torch.randint(keep, (n, self.tries), generator=random).to(x.device)
        tried = prompts[:, None].repeat(1, self.tries, 1)
        rows, tries = (torch.arange(size, device=x.device) for size in (n, self.tries))
        tried[rows[:, None], tries, place] = promising[rows[:, None], place, which]
        for row, prompt in zip(tried, prompts, strict=True):
            for candidate in row:
                if not _typed(target, candidate):
                    candidate[:] = prompt
        return tried


@torch.no_grad()
def _value(target: Target, prompts: Tensor, aims: Aims) -> tuple[Tensor, Tensor]:
    return mean_nll(target, _opened(target, prompts), *aims)


def _opened(target: Target, prompts: Tensor) -> Tensor:
    return target.model.embed(torch.cat([target.opening(len(prompts)), prompts], 1))


def _typed(target: Target, prompt: Tensor) -> bool:
    """Whether the prompt's text, encoded, gives the prompt back."""
    ids = prompt.tolist()
    return target.alphabet.encode(target.alphabet.decode(ids)) == ids
