"""The verdict: replicates, no evidence, or inconclusive and which condition failed.

What M was trained on is never looked at, also where it is known: the tests compare the whole
protected set with the control. The truth only appears in what is told of members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metastable.audit import validity
from metastable.audit.blind import separate_blindly
from metastable.audit.evidence import (
    EvidenceRow,
    Question,
    Row,
    decisive,
    questions,
    weigh_evidence,
)
from metastable.audit.overlap import estimate_overlap
from metastable.audit.statistics import tpr_at_fpr

DRAWS = 9999


@dataclass(frozen=True)
class AuditVerdict:
    """The verdict and what it rests on.

    `decided_by` names the question of the smallest adjusted p-value; `auc`, `tpr_at_1pct` and
    `rates` are of its score. `reconstruction_error` and `exact_rate` are means over items of the
    question `main`: what M writes from the smallest prompt. `protected` there is the whole
    protected set, members included.
    """

    verdict: str
    reason: str
    p_value: float
    overlap_estimate: list[float]
    auc: float
    tpr_at_1pct: float | None
    reconstruction_error: dict[str, float | None]
    exact_rate: dict[str, float | None]
    blind_auc: float
    main: str
    decided_by: str
    findings: list[dict[str, Any]]
    rates: list[dict[str, Any]]
    overlap_assumption: str
    conditions: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """All but the conditions, by name."""
        return {k: v for k, v in asdict(self).items() if k != "conditions"}


def make_verdict(
    rows: Sequence[Row],
    *,
    level: float,
    blind: tuple[Sequence[str], Sequence[str]],
    nulls: Mapping[str, Sequence[Row]] | None = None,
    replicates: Sequence[float] = (),
    known_members: ArrayLike | None = None,
    seed: int = 0,
) -> AuditVerdict:
    """The verdict of an audit, from its rows.

    `blind` holds the texts of protected and of control documents, for the classifier that never
    asks M; `nulls` the rows collected from models or items that nothing must show on, by the names
    of `validity.NULLS`; `replicates` the `main_p` of audits of models trained without the protected
    set. `known_members` is minus the `nll` of documents that M was surely trained on and that were
    drawn like the protected ones: it makes the estimate of the overlap narrow.

    "replicates" needs every condition, Holm's p-value at most `level`, and an effect whose interval
    excludes 0; "no evidence" needs every condition too, or its silence would say nothing.
    """
    asked = questions(rows)
    main = asked[0]
    findings = weigh_evidence(asked, draws=DRAWS, seed=seed)
    separated = separate_blindly(*blind, seed=seed)
    settings = {"draws": DRAWS, "seed": seed}
    null = {name: validity.null_p(own, **settings) for name, own in (nulls or {}).items()}
    null["permuted_labels"] = validity.permuted_p(asked, **settings)
    halves = validity.resplit(main.control, seed=seed)
    conditions = [
        validity.check_size(asked, level, DRAWS),
        validity.check_blind(separated),
        *validity.check_nulls(null),
        validity.check_calibration("calibrated over re-splits", halves),
        validity.check_calibration("calibrated over null models", replicates),
    ]
    verdict, reason = _decide(findings, conditions, level)
    likely = next((q for q in asked if q.score == "nll"), main)
    overlap = estimate_overlap(likely.protected, likely.control, known_members)
    best = decisive(findings)
    carrier = asked[findings.index(best)]
    rates = [_rate(carrier, level) for level in (0.01, 0.001, 1 / len(carrier.control))]
    written = rows if main.reconstructs else []
    return AuditVerdict(
        verdict=verdict,
        reason=reason,
        p_value=best.adjusted,
        overlap_estimate=overlap.interval.to_list(),
        auc=best.auc.mid,
        tpr_at_1pct=rates[0]["tpr"][1] if rates[0]["tpr"] else None,
        reconstruction_error=_by_group(written, main, main.score),
        exact_rate=_by_group(written, main, "exact"),
        blind_auc=separated.auc.mid,
        main=main.name,
        decided_by=best.name,
        findings=[finding.to_dict() for finding in findings],
        rates=rates,
        overlap_assumption=overlap.assumption,
        conditions=[asdict(condition) for condition in conditions],
    )


def _decide(
    findings: Sequence[EvidenceRow], conditions: Sequence[validity.Condition], level: float
) -> tuple[str, str]:
    failed = [f"{validity.in_words(c.name)}: {c.told}" for c in conditions if c.held is False]
    if failed:
        return "inconclusive", "; ".join(failed)
    best = decisive(findings)
    smallest = f"{best.name}, {len(findings)} questions, smallest adjusted p = {best.adjusted:.2g}"
    strong = [finding for finding in findings if finding.adjusted <= level]
    if not strong:
        return "no evidence", f"protected items do not stand out from controls ({smallest})"
    clear = [finding for finding in strong if finding.effect.low > 0]
    if not clear:
        return "inconclusive", f"effect: its 95 % interval contains 0 ({smallest})"
    written = [finding for finding in clear if finding.reconstructs]
    if not written:
        knows = "by likelihood only: M knows the items and was not seen to write them"
        return "replicates", f"{knows} ({smallest})"
    names = ", ".join(finding.name for finding in written)
    # The p-value of each question that is named, and of the best where it is another.
    values = ", ".join(f"{finding.adjusted:.2g}" for finding in written)
    values += f"; {len(findings)} questions" if best in written else f"; {smallest}"
    nearer = f"M comes nearer to protected items than to controls by {names}"
    return "replicates", f"{nearer} (adjusted p = {values})"


def _rate(question: Question, level: float) -> dict[str, Any]:
    try:
        rate = tpr_at_fpr(question.protected, question.control, level)
    except ValueError as error:
        return {"level": level, "tpr": None, "told": str(error)}
    return {"level": level, "tpr": rate.to_list(), "told": ""}


def _by_group(rows: Sequence[Row], main: Question, score: str) -> dict[str, float | None]:
    """Means over items: of known members, of the whole protected set, of controls."""
    own = [row for row in rows if main.is_of(row)]
    groups = {"members": ("member",), "protected": ("member", "protected"), "control": ("control",)}
    values = {
        name: [float(row[score]) for row in own if row["group"] in kinds]
        for name, kinds in groups.items()
    }
    return {name: float(np.mean(v)) if v else None for name, v in values.items()}
