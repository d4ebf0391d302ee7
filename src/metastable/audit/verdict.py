"""Two findings, never one word: whether M was trained on the protected set, and reproduces it.

Each finding is a verdict on its null. "Trained on" rests on what M finds likely, "reproduces" on
text that comes out. What M was trained on is never looked at, also where it is known: tests compare
the whole protected set with the control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metastable.audit import validity
from metastable.audit.blind import Blind
from metastable.audit.evidence import (
    BY_TEXT,
    NEAR,
    REPRODUCES,
    TRAINED,
    EvidenceRow,
    Question,
    Row,
    combined_question,
    comes_out,
    decisive,
    error_score,
    questions,
    weigh_evidence,
)
from metastable.audit.overlap import estimate_overlap
from metastable.audit.power import Power
from metastable.audit.scores import score_in_words
from metastable.audit.statistics import adjust_holm, proportion, tpr_at_fpr
from metastable.core.verdict import AGREE, DISAGREE, NOT_APPLICABLE, Comparison, Verdict

DRAWS = 9999
FLOOR = 3  # protected documents that must come out near-verbatim before "reproduces" can be said
CLAIMS = {
    TRAINED: "M was not trained on the protected set",
    REPRODUCES: "M does not reproduce the protected texts more than controls",
}
SOURCE = "permutation test over documents, Holm; docs/audit.md"
NO_EVIDENCE, CANNOT_TELL = "no evidence", "cannot tell"
SHARES = {"near-verbatim": comes_out, "exactly": lambda row: bool(row["exact"])}


@dataclass(frozen=True)
class Finding:
    """One finding and what it rests on.

    `p_value` is adjusted over the questions of the family and over the two findings; `decided_by`
    names the question that carries it, whose area, effect and rates stand here.
    """

    name: str
    verdict: str
    reason: str
    p_value: float | None
    decided_by: str | None
    auc: list[float] | None
    effect: list[float] | None
    rates: list[dict[str, Any]]
    questions: list[dict[str, Any]]

    @property
    def word(self) -> str:
        """What the page says: the finding itself, "no evidence" or "cannot tell"."""
        return {DISAGREE: self.name, AGREE: NO_EVIDENCE, NOT_APPLICABLE: CANNOT_TELL}[self.verdict]

    def row(self, level: float) -> Verdict:
        told = self.verdict != NOT_APPLICABLE
        expected, observed, words = (0.5, self.auc and self.auc[1], "area under the curve")
        if self.name == REPRODUCES:
            expected, observed, words = (0.0, self.effect and self.effect[1], "more come out by")
        tolerance = f"{words}; p above {level:g}"
        values = (expected, observed, tolerance) if told else (None, None, "")
        given = (self.verdict, self.reason, None, self.p_value if told else None)
        return Verdict(CLAIMS[self.name], SOURCE, *values, *given)

    def to_dict(self) -> dict[str, Any]:
        return {"finding": self.word, **asdict(self)}


@dataclass(frozen=True)
class Findings:
    """Both findings, the conditions they stand on, and what an audit of this size can see."""

    trained_on: Finding
    reproduces: Finding
    level: float
    overlap: dict[str, Any]
    reconstruction_error: dict[str, float | None]
    exact_rate: dict[str, float | None]
    near_rate: dict[str, float | None]
    blind_auc: float | None
    power: dict[str, Any]
    conditions: list[dict[str, Any]]

    @property
    def found(self) -> bool:
        return DISAGREE in (self.trained_on.verdict, self.reproduces.verdict)

    def to_dict(self) -> dict[str, Any]:
        """Facts of the result."""
        both = {"trained_on": self.trained_on.to_dict(), "reproduces": self.reproduces.to_dict()}
        rest = (f for f in self.__dataclass_fields__ if f not in both)
        return both | {name: getattr(self, name) for name in rest}

    def comparison(self) -> Comparison:
        """The two findings, then the conditions, as rows of expected against observed."""
        words = {True: AGREE, False: DISAGREE, None: NOT_APPLICABLE}
        claim = ("derived: audit.validity", "holds", None, "")
        rows = [self.trained_on.row(self.level), self.reproduces.row(self.level)]
        for each in self.conditions:
            name = validity.in_words(each["name"])
            rows.append(Verdict(name, *claim, words[each["held"]], each["told"]))
        return Comparison(tuple(rows), "none")


def make_findings(
    rows: Sequence[Row],
    *,
    level: float,
    blind: Blind | None,
    nulls: Mapping[str, Sequence[Row]] | None = None,
    null_models: Sequence[float] = (),
    known_members: ArrayLike | None = None,
    more: Sequence[validity.Condition] = (),
    works: bool = False,
    seed: int = 0,
    combined: bool = False,
) -> Findings:
    """Both findings of an audit, from its rows.

    `combined` asks the likelihood's scores together too (dataset inference). `blind` is what the
    classifier that never asks M saw (None for canaries, where coins make both sets alike); `nulls`
    the rows collected from models or items that nothing must show on, by the names of
    `validity.NULLS`; `null_models` the `main_p` of audits of models trained without the protected
    set; `more` are conditions examined elsewhere.
    `known_members` is minus the `nll` of documents that M was surely trained on and that were drawn
    like the protected ones: it gives the overlap an upper limit. Parts of whole `works` are always
    told apart, by subject and names, and by likelihoods of any model: there, what shows without M
    or without training stops "trained on" alone, and "reproduces" by what such models write.

    A finding needs every condition that concerns it, an adjusted p of at most `level` and an effect
    whose interval excludes 0. "Reproduces" needs, besides, that at least `FLOOR` protected
    documents come out near-verbatim by a prompt that cannot hold them. "No evidence" needs every
    condition too, or its silence would say nothing.
    """
    asked = questions(rows)
    asked += [q for q in [combined_question(asked, seed) if combined else None] if q is not None]
    weighed = weigh_evidence(asked, draws=DRAWS, seed=seed)
    settings = {"draws": DRAWS, "seed": seed}
    halves = validity.resplit(asked[0].control, seed=seed)
    conditions = [
        *(validity.check_size(asked, family, level, DRAWS) for family in (TRAINED, REPRODUCES)),
        *([] if blind is None else [validity.check_blind(blind, works)]),
        *more,
        *validity.check_answers(rows, seed),
        *validity.ask_nulls(nulls or {}, asked, works, **settings),
        validity.check_calibration("calibrated over re-splits", halves),
        validity.check_calibration("calibrated over null models", null_models),
    ]
    pairs = list(zip(asked, weighed, strict=True))
    sides = [_Side(name, pairs, rows, conditions) for name in (TRAINED, REPRODUCES)]
    # Holm over the two findings, after Holm within each: the level holds for both together.
    adjusted = adjust_holm([side.p for side in sides])
    sizes = len(asked[0].protected), len(asked[0].control)
    told = Power(*sizes, level, len(sides[0]), len(sides[1])).to_dict()
    both = [side.decide(p, level, told) for side, p in zip(sides, adjusted, strict=True)]
    likely = next((q for q in asked if q.score in ("nll", BY_TEXT[0])), None)
    overlap = (
        {"low": 0.0, "mid": None, "high": None, "basis": "no likelihoods"}
        if likely is None
        else estimate_overlap(likely.protected, likely.control, known_members).to_dict()
    )
    carrier = sides[1].carrier
    error = error_score(rows)
    written = [] if carrier is None else [row for row in rows if carrier[0].is_of(row)]
    return Findings(
        *both,
        level=level,
        overlap=overlap,
        reconstruction_error=_by_group(written, lambda row: float(row[error or ""])),
        exact_rate=_by_group(written, lambda row: float(row["exact"])),
        near_rate=_by_group(written, lambda row: float(comes_out(row) or 0)),
        blind_auc=None if blind is None else blind.auc.mid,
        power=told,
        conditions=[asdict(condition) for condition in conditions],
    )


class _Side:
    """The questions of one family, and the conditions that can stop its finding."""

    def __init__(
        self,
        name: str,
        pairs: Sequence[tuple[Question, EvidenceRow]],
        rows: Sequence[Row],
        conditions: Sequence[validity.Condition],
    ):
        self.name, self.rows = name, rows
        self.pairs = [pair for pair in pairs if pair[0].family == name]
        self.failed = [
            f"{validity.in_words(c.name)}: {c.told}"
            for c in conditions
            if c.held is False and name in c.stops
        ]
        # Prompts that could hold the text count as questions, and never carry the finding.
        able = [pair for pair in self.pairs if not pair[0].fits]
        best = decisive([row for _, row in able]) if able else None
        self.carrier = next((pair for pair in able if pair[1] is best), None)
        self.p = 1.0 if best is None else best.adjusted

    def __len__(self) -> int:
        return len(self.pairs)

    def decide(self, p: float, level: float, power: Mapping[str, Any]) -> Finding:
        asked = [row.to_dict() for _, row in self.pairs]
        if self.carrier is None:
            nothing = (None, None, None, None)
            return Finding(self.name, NOT_APPLICABLE, self._silent(), *nothing, [], asked)
        question, best = self.carrier
        verdict, reason = self._judge(best, p, level, power)
        rates = self._shares(question) if self.name == REPRODUCES else _rates(question)
        area, effect = best.auc.to_list(), best.effect.to_list()
        return Finding(self.name, verdict, reason, p, best.name, area, effect, rates, asked)

    def _silent(self) -> str:
        if self.name == TRAINED:
            return "likelihoods: M gives none that are finite, so that membership cannot be tested"
        if not self.pairs:
            return "prompts: none was tried, so that nothing could come out"
        return (
            "prompts: each could hold the text itself, and controls came out too; use a smaller "
            "budget, or prefix"
        )

    def _judge(
        self, best: EvidenceRow, p: float, level: float, power: Mapping[str, Any]
    ) -> tuple[str, str]:
        if self.failed:
            return NOT_APPLICABLE, "; ".join(self.failed)
        by = score_in_words(best.score) if self.name == TRAINED else best.name
        tested = f"by {by}, {len(self)} questions, adjusted p = {p:.2g}"
        seen = f"area {power['auc']:.2f}"
        if self.name == REPRODUCES:
            hits, documents, controls = self._hits()
            seen = f"a share of {100 * power['rate']:.0f} % coming out"
            tested = f"{hits} of {documents} protected and {controls} control documents; {tested}"
        missed = f"{100 * power['power']:.0f} % power to see {seen}"
        if p > level:
            return AGREE, f"protected texts do not stand out from controls ({tested}; {missed})"
        if self.name == REPRODUCES and self._hits()[0] < FLOOR:
            few = f"fewer than {FLOOR} protected documents come out near-verbatim"
            return AGREE, f"{few} ({tested}; {missed})"
        if best.effect.low <= 0:
            return NOT_APPLICABLE, f"effect: its 95 % interval contains 0 ({tested})"
        if self.name == TRAINED:
            more = "what M writes comes nearer to protected texts than to controls"
            by_text = best.score in BY_TEXT
            likelier = more if by_text else "M finds protected texts likelier than controls"
            return DISAGREE, f"{likelier} ({tested})"
        return DISAGREE, f"protected texts come out near-verbatim ({tested})"

    def _hits(self) -> tuple[int, int, int]:
        """Documents of which a passage comes out: protected, of how many, and control."""
        assert self.carrier is not None
        question = self.carrier[0]
        hits, control = (int(np.sum(x > 0)) for x in (question.protected, question.control))
        return hits, len(question.protected), control

    def _shares(self, question: Question) -> list[dict[str, Any]]:
        """Shares of items that come out, with Clopper–Pearson limits, by set."""
        own = [row for row in self.rows if question.is_of(row)]
        told = []
        for name, is_hit in SHARES.items():
            for group, control in (("protected", False), ("control", True)):
                hits = [bool(is_hit(r)) for r in own if (r["group"] == "control") is control]
                share = proportion(sum(hits), len(hits)).to_list()
                told.append({"written": name, "set": group, "of": len(hits), "share": share})
        return told


def _rates(question: Question) -> list[dict[str, Any]]:
    return [_rate(question, level) for level in (0.01, 0.001, 1 / len(question.control))]


def _rate(question: Question, level: float) -> dict[str, Any]:
    try:
        rate = tpr_at_fpr(question.protected, question.control, level)
    except ValueError as error:
        return {"level": level, "tpr": None, "told": str(error)}
    return {"level": level, "tpr": rate.to_list(), "told": ""}


def _by_group(rows: Sequence[Row], score: Any) -> dict[str, float | None]:
    """Means over items: of known members, of the whole protected set, of controls."""
    groups = {"members": ("member",), "protected": ("member", "protected"), "control": ("control",)}
    values = {
        name: [score(row) for row in rows if row["group"] in kinds]
        for name, kinds in groups.items()
    }
    return {name: float(np.mean(v)) if v else None for name, v in values.items()}


def threshold_words(rows: Sequence[Row]) -> str:
    """What near-verbatim means for these rows."""
    score = error_score(rows) or "edit"
    names = {"squared_error": "a mean squared error", "edit": "an edit distance"}
    return f"{names.get(score, 'a share of wrong places')} of at most {NEAR[score]:g}"
