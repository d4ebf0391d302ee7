"""Several models, or one at several β, on the same texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metastable.core.show import Shown
from metastable.core.verdict import AGREE, DISAGREE, Comparison
from metastable.flows import Trajectory
from metastable.models.ablate import Ablation, ScaledBeta
from metastable.models.inspection import Inspection, inspect
from metastable.models.prompts import Prompt


@dataclass(frozen=True, eq=False, repr=False)
class Inspections(Shown):
    """Several models, or one at several β, on the same texts; see `inspect_many`."""

    each: dict[str, Inspection]  # by name

    @property
    def run(self) -> Trajectory:
        """Of the first."""
        return next(iter(self.each.values())).run

    @property
    def steps(self) -> list[float] | None:
        """Numbers that the names end in, as those of checkpoints do; None where not all have one.

        They are the second axis: time of training.
        """
        found = [re.findall(r"(\d+)\D*$", name) for name in self.each]
        if len(found) < 2 or not all(found):
            return None
        numbers = [float(match[0]) for match in found]
        return numbers if len(set(numbers)) == len(numbers) else None

    @property
    def verdicts(self) -> Comparison:
        """All rows, each with the name of its model."""
        rows = [
            replace(row, claim=f"{name}: {row.claim}")
            for name, one in self.each.items()
            for row in one.verdicts.rows
        ]
        return Comparison(tuple(rows), "layers")

    @property
    def sentence(self) -> str:
        """Of each, what its tokens do; and all verdicts together."""
        said = [
            f"{name}: {one.strict.sentence().rstrip('.')}; {_lower(one.gathering())}; "
            f"{_lower(one.cosine_change())}; sink heads: {len(one.sinks)}."
            for name, one in self.each.items()
        ]
        rows = self.verdicts
        counts = f"{rows.count(AGREE)} agree, {rows.count(DISAGREE)} disagree"
        return " ".join([*said, f"Layers against their own weights: {counts}."])

    def __repr__(self) -> str:
        return self.sentence

    def table(self) -> list[dict[str, Any]]:
        """One row a model: where its tokens end, its sinks, its energy, its verdicts."""
        rows = []
        for name, one in self.each.items():
            table, energy = one.table, one.energy
            falls = None if energy is None else int(np.sum(energy.change < 0))
            row = {"model": name, "layers": one.run.statistics["layers"]}
            row |= {"tokens": one.run.statistics["tokens"]}
            row |= {"mean cosine at the start": float(table.mean_cosine[0])}
            row |= {"at the end": float(table.mean_cosine[-1]), "clusters": int(table.clusters[-1])}
            row |= {"effective rank": float(table.effective_rank[-1])}
            row |= {"layers in which the energy falls": falls, "sink heads": len(one.sinks)}
            rows.append(row | {"verdicts that disagree": one.verdicts.count(DISAGREE)})
        return rows

    def to_dict(self, out: str | None = None) -> dict[str, Any]:
        """What `metastable inspect A B --json` prints."""
        models = {name: one.to_dict() for name, one in self.each.items()}
        return {"models": models, "table": self.table(), "out": out}


def inspect_many(
    sources: Sequence[Any] | Mapping[str, Any],
    prompts: Sequence[str | Sequence[int] | Prompt],
    *,
    betas: Sequence[float] = (),
    ablate: Sequence[Ablation] = (),
    **choices: Any,
) -> Inspections:
    """The same texts through several models, through one at several β, or both.

    `sources` may be given by name; names that end in numbers are steps of training, a second axis.
    `betas` multiply the logits of attention, see `ScaledBeta`. `choices` go to `inspect`.
    """
    each: dict[str, Inspection] = {}
    named = sources if isinstance(sources, Mapping) else dict(enumerate(sources))
    for given, source in named.items():
        for beta in betas or (None,):
            changes = ablate if beta is None else (*ablate, ScaledBeta(beta))
            found = inspect(source, prompts, ablate=changes, **choices)
            name = given if isinstance(given, str) else _short(str(found.run.statistics["model"]))
            name = name if beta is None else f"{name}, β × {beta:g}"
            each[name if name not in each else f"{name} ({len(each) + 1})"] = found
    return Inspections(each)


def _short(name: str) -> str:
    """The last part of a path: enough to tell models apart on a page."""
    return name.rstrip("/").rsplit("/", 1)[-1]


def _lower(said: str) -> str:
    return said[:1].lower() + said[1:]
