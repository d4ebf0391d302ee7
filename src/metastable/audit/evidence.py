"""From the table of items to questions: does the protected set show more than the control?

Rows are those of `items.csv`, one for each item × generator × budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metastable.audit import statistics
from metastable.audit.scores import EVIDENCE

Row = Mapping[str, Any]

# One score of each kind of row is asked about: hits, edits and runs say the same again, and every
# further question costs power. They are told in the table and the page.
LIKELIHOOD = ("nll", "min_k", "min_k_pp", "zlib_ratio", "reference_ratio")
ERRORS = ("squared_error", "hamming")
# The main question is fixed beforehand: the first of these, at its least budget. Null models and
# re-splits are judged by it.
ORDER = ("soft", "discrete", "prefix", "shared", "amortised", "likelihood")
GROUPS = ("member", "protected", "control")


@dataclass(frozen=True)
class Question:
    """Evidence by documents of one score of one generator at one budget."""

    generator: str
    budget: int
    score: str
    protected: NDArray[np.float64]
    control: NDArray[np.float64]
    members: NDArray[np.float64]  # protected and known to be trained on; no test looks at them

    @property
    def name(self) -> str:
        return self.score if self.generator == "likelihood" else f"{self.generator} {self.budget}"

    @property
    def reconstructs(self) -> bool:
        """Whether the score is about what M writes, and not only about what it finds likely."""
        return self.generator != "likelihood"

    def is_of(self, row: Row) -> bool:
        """Whether a row is one that the question is about."""
        return row["generator"] == self.generator and int(row["budget"]) == self.budget


@dataclass(frozen=True)
class EvidenceRow:
    """What a question showed; `adjusted` is Holm's p-value over all questions of the audit."""

    name: str
    score: str
    reconstructs: bool
    p_value: float
    adjusted: float
    auc: statistics.Interval
    effect: statistics.Interval

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"auc": self.auc.to_list(), "effect": self.effect.to_list()}


def questions(rows: Iterable[Row]) -> list[Question]:
    """All questions that the rows can answer, the main one first: what M writes from least.

    Windows of a document are averaged: documents are the units of every test.
    """
    kinds: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["group"] not in GROUPS:
            raise ValueError(f"group must be one of {', '.join(GROUPS)}; got {row['group']!r}.")
        kinds.setdefault((row["generator"], int(row["budget"])), []).append(row)
    rank = {name: k for k, name in enumerate(ORDER)}
    made = []
    for generator, budget in sorted(kinds, key=lambda kind: (rank[kind[0]], kind[1])):
        own = kinds[generator, budget]
        likelihood = generator == "likelihood"
        known = [
            score
            for score in (LIKELIHOOD if likelihood else ERRORS)
            if all(number(row, score) is not None for row in own)
        ]
        for score in known if likelihood else known[:1]:
            protected = _by_document(own, score, GROUPS[:2])
            control = _by_document(own, score, GROUPS[2:])
            if min(len(protected), len(control)) > 1:
                members = _by_document(own, score, GROUPS[:1])
                made.append(Question(generator, budget, score, protected, control, members))
    if not made:
        raise ValueError(
            "rows must hold a score of two protected and of two control documents or more; got "
            "none that does: collect them first, of more documents."
        )
    return made


def permutation_p_values(
    asked: Sequence[Question], *, draws: int = 9999, seed: int = 0
) -> tuple[list[float], list[float]]:
    """The p-value of each question, and Holm's adjustment over them."""
    settings = {"draws": draws, "seed": seed}
    p = [statistics.permutation_p(q.protected, q.control, **settings) for q in asked]
    return p, statistics.adjust_holm(p)


def weigh_evidence(
    asked: Sequence[Question], *, draws: int = 9999, seed: int = 0
) -> list[EvidenceRow]:
    """Answer all questions, with Holm's adjustment over them."""
    findings = []
    for q, p, adjusted in zip(
        asked, *permutation_p_values(asked, draws=draws, seed=seed), strict=True
    ):
        area = statistics.auc(q.protected, q.control)
        effect = statistics.effect(q.protected, q.control, seed=seed)
        findings.append(EvidenceRow(q.name, q.score, q.reconstructs, p, adjusted, area, effect))
    return findings


def decisive(findings: Sequence[EvidenceRow]) -> EvidenceRow:
    """The finding that carries the verdict: the smallest adjusted p-value.

    p-values of random relabellings have a least value, where many tie: then the first in the
    order that is fixed beforehand, which puts what M writes before what it finds likely.
    """
    return min(findings, key=lambda finding: (finding.adjusted, finding.p_value))


def rank_items(rows: Iterable[Row], question: Question) -> list[dict[str, Any]]:
    """Rows of a question, strongest evidence first; protected ones with `q_value`."""
    own = [dict(row) for row in rows if question.is_of(row)]
    sign = EVIDENCE[question.score]
    shown = np.array([sign * float(row[question.score]) for row in own])
    control = np.array([row["group"] == "control" for row in own])
    q_values = iter(statistics.item_q_values(shown[~control], shown[control]).tolist())
    for row, held in zip(own, control, strict=True):
        row["q_value"] = None if held else next(q_values)
    return [own[k] for k in np.argsort(-shown, kind="stable")]


def number(row: Row, name: str) -> float | None:
    """A cell as a number; None where it is empty, absent or not finite."""
    cell = row.get(name)
    value = math.nan if cell is None or cell == "" else float(cell)
    return value if math.isfinite(value) else None


def _by_document(rows: Sequence[Row], score: str, groups: Sequence[str]) -> NDArray[np.float64]:
    documents: dict[str, list[float]] = {}
    for row in rows:
        if row["group"] in groups:
            documents.setdefault(row["document"], []).append(EVIDENCE[score] * float(row[score]))
    return np.array([float(np.mean(values)) for values in documents.values()])
