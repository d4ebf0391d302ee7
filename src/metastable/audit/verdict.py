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

from metastable.audit.blind import separate_blindly
from metastable.audit.evidence import Finding, Question, Row, decisive, examine, questions
from metastable.audit.overlap import estimate_overlap
from metastable.audit.statistics import tpr_at_fpr
from metastable.audit.validity import (
    Condition,
    check_blind,
    check_calibration,
    check_nulls,
    check_size,
    in_words,
    null_p,
    permuted_p,
    resplit,
)

DRAWS = 9999


@dataclass(frozen=True)
class Verdict:
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
        told = asdict(self)
        del told["conditions"]
        return told


def judge(
    rows: Sequence[Row],
    *,
    level: float,
    blind: tuple[Sequence[str], Sequence[str]],
    nulls: Mapping[str, Sequence[Row]] | None = None,
    replicates: Sequence[float] = (),
    known_members: ArrayLike | None = None,
    seed: int = 0,
) -> Verdict:
    """Judge an audit from its rows.

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
    findings = examine(asked, draws=DRAWS, seed=seed)
    separated = separate_blindly(*blind, seed=seed)
    found = {name: null_p(own, draws=DRAWS, seed=seed) for name, own in (nulls or {}).items()}
    found["permuted_labels"] = permuted_p(asked, draws=DRAWS, seed=seed)
    conditions = [
        check_size(asked, level, DRAWS),
        check_blind(separated),
        *check_nulls(found),
        check_calibration("calibrated over re-splits", resplit(main.control, seed=seed)),
        check_calibration("calibrated over null models", replicates),
    ]
    verdict, reason = _decide(findings, conditions, level)
    likely = next((q for q in asked if q.score == "nll"), main)
    overlap = estimate_overlap(likely.protected, likely.control, known_members)
    best = decisive(findings)
    carrier = asked[findings.index(best)]
    rates = [_rate(carrier, level) for level in (0.01, 0.001, 1 / len(carrier.control))]
    written = rows if main.reconstructs else []
    return Verdict(
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
        findings=[one.to_dict() for one in findings],
        rates=rates,
        overlap_assumption=overlap.assumption,
        conditions=[asdict(one) for one in conditions],
    )


def _decide(
    findings: Sequence[Finding], conditions: Sequence[Condition], level: float
) -> tuple[str, str]:
    failed = [one for one in conditions if one.held is False]
    if failed:
        return "inconclusive", "; ".join(f"{in_words(one.name)}: {one.told}" for one in failed)
    best = decisive(findings)
    smallest = f"{best.name}, {len(findings)} questions, smallest adjusted p = {best.adjusted:.2g}"
    found = [one for one in findings if one.adjusted <= level]
    if not found:
        return "no evidence", f"protected items do not stand out from controls ({smallest})"
    clear = [one for one in found if one.effect.low > 0]
    if not clear:
        return "inconclusive", f"effect: its 95 % interval contains 0 ({smallest})"
    written = [one for one in clear if one.reconstructs]
    if not written:
        return (
            "replicates",
            f"by likelihood only: M knows the items and was not seen to write them ({smallest})",
        )
    # The p-value of each question that is named, and of the best where it is another.
    names, values = (", ".join(part) for part in zip(*map(_quoted, written), strict=True))
    if best not in written:
        values += f"; {smallest}"
    else:
        values += f"; {len(findings)} questions"
    return (
        "replicates",
        f"M comes nearer to protected items than to controls by {names} (adjusted p = {values})",
    )


def _quoted(finding: Finding) -> tuple[str, str]:
    return finding.name, f"{finding.adjusted:.2g}"


def _rate(question: Question, level: float) -> dict[str, Any]:
    try:
        found = tpr_at_fpr(question.protected, question.control, level)
    except ValueError as error:
        return {"level": level, "tpr": None, "told": str(error)}
    return {"level": level, "tpr": found.to_list(), "told": ""}


def _by_group(rows: Sequence[Row], main: Question, score: str) -> dict[str, float | None]:
    """Means over items: of known members, of the whole protected set, of controls."""
    own = [row for row in rows if main.is_of(row)]
    groups = {"members": ("member",), "protected": ("member", "protected"), "control": ("control",)}
    told: dict[str, float | None] = {}
    for name, kinds in groups.items():
        values = [float(row[score]) for row in own if row["group"] in kinds]
        told[name] = float(np.mean(values)) if values else None
    return told
