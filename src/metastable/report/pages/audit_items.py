"""What M wrote beside what it should have written, with matching runs marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from markupsafe import Markup, escape

from metastable.audit.corpus import plural
from metastable.audit.evidence import REPRODUCES, Question, set_aside
from metastable.report.figures.audit import Rows
from metastable.report.page import Block, Listing

MOST_ITEMS, MOST_CONTROLS = 20, 5  # shown in full; all are in ranked_reproduces.csv
RUN = 12  # characters in a row that count as matching: shorter ones, such as " of the ", are chance
LINE = 100
# Seen on light and dark pages and, by its line, in print.
MARK = Markup('<mark style="color:inherit;background:#0072b244;border-bottom:1px solid #0072b2">')


def list_items(rows: Rows, asked: Sequence[Question], ranked: Rows, score: str) -> list[Block]:
    """What was written beside its target, matching runs marked, in the order of `ranked`."""
    places = {_key(row): (place, row["q_value"]) for place, row in enumerate(ranked)}
    place = lambda row: places.get(_key(row), (len(places), None))
    least: dict[str, Question] = {}
    for question in asked:
        if question.family == REPRODUCES:
            least.setdefault(question.generator, question)
    listings: list[Block] = []
    for question in least.values():
        own = sorted((row for row in rows if question.is_of(row)), key=lambda row: place(row)[0])
        ordered = [{**row, "q_value": place(row)[1]} for row in own]
        items = [row for row in ordered if row["group"] != "control"][:MOST_ITEMS]
        controls = [row for row in ordered if row["group"] == "control"][:MOST_CONTROLS]
        text = Markup("\n\n").join(_item(row, score) for row in (*items, *controls))
        title = f"{question.name}: {plural(len(items), 'protected item')}, then "
        title += plural(len(controls), "control")
        listings.append(Listing(title, text))
    return listings


def _key(row: Mapping[str, Any]) -> tuple[bool, str]:
    """Set and name: an item of the control may be called like one of the protected set."""
    return row["group"] == "control", row["item"]


def _item(row: Mapping[str, Any], score: str) -> Markup:
    q = "" if row["q_value"] is None else f", q = {row['q_value']:.3g}"
    head = f"{row['item']} ({row['group']}), {score} {float(row[score]):.3f}{q}"
    output, target = _visible(row["output"]), _visible(row["target"])
    runs = matching(output, target)
    head += f"; set aside: {set_aside(row)}" if set_aside(row) else ""
    lines = [Markup("<b>{}</b>").format(head)]
    if row["prompt"]:
        lines += _wrapped("prompt", _visible(row["prompt"]), set())
    lines += _wrapped("output", output, {k for a, _, n in runs for k in range(a, a + n)})
    lines += _wrapped("target", target, {k for _, b, n in runs for k in range(b, b + n)})
    return Markup("\n").join(lines)


def matching(output: str, target: str) -> list[tuple[int, int, int]]:
    """Runs that stand in both, in order: (start in output, start in target, length).

    >>> matching("of the union x", "state of the union")
    [(0, 6, 12)]
    """
    blocks = SequenceMatcher(None, output, target, autojunk=False).get_matching_blocks()
    return [(a, b, n) for a, b, n in blocks if n >= min(RUN, len(target)) and n > 0]


def _wrapped(name: str, text: str, marked: set[int]) -> list[Markup]:
    lines = []
    for start in range(0, max(len(text), 1), LINE):
        body, inside = Markup(""), False
        for k in range(start, min(start + LINE, len(text))):
            if (k in marked) != inside:
                body += Markup("</mark>") if inside else MARK
                inside = not inside
            body += escape(text[k])
        body += Markup("</mark>") if inside else Markup("")
        lines.append(Markup("{:8}").format(name if start == 0 else "") + body)
    return lines


def _visible(text: str) -> str:
    """Control characters as pictures, so that lines stay lines."""
    return "".join(chr(0x2400 + ord(c)) if ord(c) < 32 else c for c in text)
