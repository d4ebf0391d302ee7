"""Of an audit's page: whole works, and passages that are no evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metastable.audit.evidence import is_near, set_aside
from metastable.report.figures.audit import Rows
from metastable.report.page import Block, Table

MOST = 100  # passages listed; all are in items.csv

ASSUMED = (
    "The units of the tests are parts of the works, as if they were drawn one by one: that is an "
    "assumption. Two works are told apart by their subjects and names whatever M has read, so that "
    "“trained on” is told only where a classifier that never asks M fails to; “reproduces” "
    "rests on what comes out and no other writer writes."
)
SEARCHED = (
    "Searched: M is given the true words before each place, and must go on. Ordinary: M is given "
    "nothing, the title, a request to continue, or the opening words, and what it writes is "
    "searched for runs of forty characters of the work. The first is what M can be made to write, "
    "the second what it is prone to. The longest run joins windows that touch, each after its own "
    "true words."
)


def tell_works(summary: Mapping[str, Any]) -> list[Block]:
    """What comes out of each work, searched and ordinarily."""
    works = summary["works"]
    columns = ["work", "set", "characters", "out, searched", "longest run"]
    columns += ["out, ordinary", "longest run", "in samples"]
    rows, curves = [], []
    for work in works["works"]:
        name = [work["work"], work["set"]]
        told = [*name, work["characters"], _percent(work["recall"]), work["longest_run"]]
        ordinary = work["ordinary"]
        if ordinary is not None:
            hits = f"{sum(ordinary['hits'].values())} of {ordinary['samples']}"
            told += [_percent(ordinary["share"]), ordinary["longest_run"], hits]
        rows.append(told + [None] * (len(columns) - len(told)))
        if work["coverage"] is not None:
            curves.append([*name, *map(_percent, [work["asked"], *work["coverage"]])])
    shares = [f"p ≥ {threshold:g}" for threshold in works["thresholds"]]
    curve: list[Block] = [Table(["work", "set", "asked", *shares], curves)] if curves else []
    return [SEARCHED, Table(columns, rows), *curve, ASSUMED]


def tell_known(summary: Mapping[str, Any], rows: Rows) -> list[tuple[str, Table]]:
    """Passages set aside with the reason, those that came out first; none of old audits."""
    if "set_aside" not in summary:
        return []
    kept: dict[tuple[str, str], list[Any]] = {}
    for row in sorted(rows, key=lambda row: not is_near(row)):
        reason = set_aside(row)
        if reason:
            side = "control" if row["group"] == "control" else "protected"
            came = "yes" if is_near(row) else "no"
            kept.setdefault((side, row["item"]), [row["item"], side, came, reason])
    counts = {side: own["passages"] for side, own in summary["set_aside"].items()}
    title = f"Set aside as no evidence: {counts['protected']} protected and {counts['control']} "
    columns = ["passage", "set", "came out", "why"]
    return [(f"{title}control passages", Table(columns, list(kept.values())[:MOST]))]


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"
