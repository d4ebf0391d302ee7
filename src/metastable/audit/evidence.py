"""From the table of items to questions: does the protected set show more than the control?

Rows are those of `items.csv`, one for each item × generator × budget. Questions come in two
families, one for each finding: what M finds likely (`trained on`), and what M writes
(`reproduces`). Documents are the units of every test: windows of one document are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metastable.audit import statistics
from metastable.audit.pairs import sign_flip_p
from metastable.audit.references import SEVERAL, combine
from metastable.audit.scores import EVIDENCE, score_in_words

Row = Mapping[str, Any]

TRAINED, REPRODUCES = "trained on", "reproduces"
LIKELIHOOD = ("nll", "min_k", "min_k_pp", "zlib_ratio", "reference_ratio")
BY_TEXT = ("foresight", "coverage", "best_coverage")  # where M gives no likelihoods
ERRORS = ("squared_error", "edit", "hamming")
# Near-verbatim: an edit distance of at most a tenth of the passage, in tokens; of an image, a mean
# squared error of at most 0.01, a tenth of the range of grey in the root.
NEAR = {"squared_error": 0.01, "edit": 0.1, "hamming": 0.1}
# Order of questions, fixed beforehand; of equal p-values the first carries the finding. What can be
# typed comes before vectors that no keyboard can write.
ORDER = ("likelihood", "prefix", "discrete", "soft", "shared", "amortised")
GROUPS = ("member", "protected", "control")
COMMON = 0.5  # share of a passage in other texts from which on it is set aside


@dataclass(frozen=True)
class Question:
    """Evidence by documents of one score of one generator at one budget.

    `fits`: whether the prompt could hold the item: its bits are not below those of the shortest
    item, and the same search made M write a control. Then what comes out may be the prompt's own.
    """

    generator: str
    budget: int
    score: str
    protected: NDArray[np.float64]
    control: NDArray[np.float64]
    members: NDArray[np.float64]  # protected and known to be trained on; no test looks at them
    fits: bool = False
    paired: bool = False  # canaries: place k of both sets is one pair, whose coin was fair

    @property
    def name(self) -> str:
        return self.score if self.family == TRAINED else f"{self.generator} {self.budget}"

    @property
    def title(self) -> str:
        """The name as readers meet it."""
        return score_in_words(self.score) if self.family == TRAINED else self.name

    @property
    def family(self) -> str:
        """The finding that the question is about."""
        return TRAINED if self.generator == "likelihood" else REPRODUCES

    @property
    def outcomes(self) -> int | None:
        """Ways the coins can fall; None where documents are relabelled instead."""
        return 2 ** len(self.protected) if self.paired else None

    def p_value(self, *, draws: int, seed: int) -> float:
        if self.paired:
            return sign_flip_p(self.protected - self.control, draws=draws, seed=seed)
        return statistics.permutation_p(self.protected, self.control, draws=draws, seed=seed)

    def is_of(self, row: Row) -> bool:
        """Whether a row is one that the question is about."""
        return row["generator"] == self.generator and int(row["budget"]) == self.budget


@dataclass(frozen=True)
class EvidenceRow:
    """What a question showed; `adjusted` is Holm's p-value within its family."""

    name: str
    score: str
    family: str
    p_value: float
    adjusted: float
    auc: statistics.Interval
    effect: statistics.Interval
    fits: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"auc": self.auc.to_list(), "effect": self.effect.to_list()}


def error_score(rows: Iterable[Row]) -> str | None:
    """The error by which outputs are measured: of images, by edits, or place by place."""
    written = [row for row in rows if row["generator"] != "likelihood"]
    known = (score for score in ERRORS if all(number(row, score) is not None for row in written))
    return next(known, None) if written else None


def is_near(row: Row) -> bool | None:
    """Whether what M wrote is the passage, verbatim or nearly so; None where nothing says.

    >>> is_near({"edit": 0.08}), is_near({"edit": 0.3, "squared_error": 0.001}), is_near({})
    (True, True, None)
    """
    for score in ERRORS:
        value = number(row, score)
        if value is not None:
            return value <= NEAR[score]
    return None


def set_aside(row: Row) -> str:
    """Why what M wrote is no evidence of copying, see `audit.novelty`; "" where nothing says so.

    >>> set_aside({"common": 0.75}), set_aside({"common": 0.1, "also": "a reference model"})
    ('75 % of it stands in other texts', 'also written by a reference model')
    """
    share = number(row, "common") or 0.0
    if share >= COMMON:
        return f"{100 * share:.0f} % of it stands in other texts"
    return f"also written by {row['also']}" if row.get("also") else ""


def comes_out(row: Row) -> bool | None:
    """Whether M wrote the passage near-verbatim, and that is evidence."""
    near = is_near(row)
    return None if near is None else near and not set_aside(row)


def questions(rows: Iterable[Row]) -> list[Question]:
    """All questions that the rows can answer, in the order of `ORDER` and of rising budgets."""
    kinds: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["group"] not in GROUPS:
            raise ValueError(f"group must be one of {', '.join(GROUPS)}; got {row['group']!r}.")
        kinds.setdefault((row["generator"], int(row["budget"])), []).append(row)
    made = []
    for generator, budget in sorted(kinds, key=lambda kind: (ORDER.index(kind[0]), kind[1])):
        own = kinds[generator, budget]
        likelihood = generator == "likelihood"
        paired = all(number(row, "pair") is not None for row in own)
        if paired:
            own = sorted(own, key=lambda row: number(row, "pair") or 0)
        for score in likelihood_scores(own) if likelihood else ("near",):
            values = [number(row, score) if likelihood else comes_out(row) for row in own]
            if any(value is None for value in values):
                continue
            shown = [EVIDENCE[score] * float(v) for v in values if v is not None]
            if paired and score == "nll":  # of the whole text, which no tokeniser changes
                sizes = [number(row, "item_bits") or 1.0 for row in own]
                shown = (np.array(shown) * sizes / np.mean(sizes)).tolist()
            sides = [by_document(own, shown, g) for g in (GROUPS[:2], GROUPS[2:], GROUPS[:1])]
            if min(map(len, sides[:2])) > 1:
                fits = not likelihood and _fits(own)
                made.append(Question(generator, budget, score, *sides, fits=fits, paired=paired))
    if not made:
        raise ValueError(
            "rows must hold a score of two protected and of two control documents or more; got "
            "none that does: collect them first, of more documents."
        )
    return made


def combined_question(asked: Sequence[Question], seed: int) -> Question | None:
    """Dataset inference: the likelihood's scores weighted by one half of documents, on the other.

    None where there is but one score, or too few documents to halve.
    """
    own = [q for q in asked if q.family == TRAINED]
    if len(own) < 2 or own[0].paired or min(len(own[0].protected), len(own[0].control)) < 4:
        return None
    sides = [np.stack([getattr(q, side) for q in own], 1) for side in ("protected", "control")]
    return Question("likelihood", 0, "combined", *combine(*sides, seed=seed), np.zeros(0))


def likelihood_scores(rows: Sequence[Row]) -> Sequence[str]:
    """Scores that are asked: all; of canaries the one that was fixed when they were made."""
    by_text = all(number(row, "nll") is None for row in rows)
    if any(number(row, "pair") is None for row in rows):
        return BY_TEXT if by_text else (*LIKELIHOOD, *SEVERAL)
    if by_text:
        return BY_TEXT[:1]
    known = all(number(row, "reference_ratio") is not None for row in rows)
    return ("reference_ratio",) if known else ("nll",)


def _fits(rows: Sequence[Row]) -> bool:
    """Whether a prompt might hold the item itself; see `Question.fits`.

    Vectors have far more bits on paper than they can use, so that a budget may also be shown to be
    too small: by controls, none of which the same search could make M write.
    """
    sizes = [(number(row, "bits"), number(row, "item_bits")) for row in rows]
    if all(bits is not None and own is not None and bits < own for bits, own in sizes):
        return False
    return any(is_near(row) for row in rows if row["group"] == "control")


def permutation_p_values(
    asked: Sequence[Question], *, draws: int = 9999, seed: int = 0
) -> tuple[list[float], list[float]]:
    """The p-value of each question, and Holm's adjustment over them."""
    p = [q.p_value(draws=draws, seed=seed) for q in asked]
    return p, statistics.adjust_holm(p)


def weigh_evidence(
    asked: Sequence[Question], *, draws: int = 9999, seed: int = 0
) -> list[EvidenceRow]:
    """Answer all questions, with Holm's adjustment within each family."""
    weighed: dict[int, EvidenceRow] = {}
    for family in (TRAINED, REPRODUCES):
        own = [(k, q) for k, q in enumerate(asked) if q.family == family]
        p_values = permutation_p_values([q for _, q in own], draws=draws, seed=seed)
        for (k, q), p, adjusted in zip(own, *p_values, strict=True):
            area = statistics.auc(q.protected, q.control)
            if family == TRAINED:
                effect = statistics.effect(q.protected, q.control, seed=seed)
            else:
                # Documents come out or not: Wilson's limits are of counts, not of small shares.
                effect = statistics.share_effect(q.protected > 0, q.control > 0)
            if q.paired:  # the share of pairs, and the mean of their differences
                more = q.protected - q.control
                area = statistics.proportion(int(np.sum(more > 0)), len(more))
                effect = statistics.effect(more, np.zeros(2), seed=seed)
            weighed[k] = EvidenceRow(q.name, q.score, family, p, adjusted, area, effect, q.fits)
    return [weighed[k] for k in range(len(asked))]


def decisive(weighed: Sequence[EvidenceRow]) -> EvidenceRow:
    """The question that carries a finding: the smallest adjusted p-value, of ties the first."""
    return min(weighed, key=lambda row: (row.adjusted, row.p_value))


def rank_items(rows: Iterable[Row], question: Question) -> list[dict[str, Any]]:
    """Rows of a question, strongest evidence first; protected ones with `q_value`.

    What M writes is ranked by its error, which tells more than near-verbatim or not.
    """
    own = [dict(row) for row in rows if question.is_of(row)]
    score = question.score if question.family == TRAINED else error_score(own) or "hamming"
    shown = np.array([EVIDENCE[score] * float(row[score]) for row in own])
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


def by_document(
    rows: Sequence[Row], shown: Sequence[float], groups: Sequence[str]
) -> NDArray[np.float64]:
    """Means over the rows of each document of some groups."""
    documents: dict[str, list[float]] = {}
    for row, value in zip(rows, shown, strict=True):
        if row["group"] in groups:
            documents.setdefault(row["document"], []).append(value)
    return np.array([float(np.mean(values)) for values in documents.values()])
