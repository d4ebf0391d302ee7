"""Rewrite the tables of error rates in docs/audit.md from the validation that is shipped.

python docs/validation.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metastable.audit.error_rates import read_table

FILE = Path(__file__).with_name("audit.md")
BEGIN, END = "<!-- error rates -->\n", "<!-- end of error rates -->\n"


def tables(table: dict[str, Any]) -> str:
    """False findings, power and coverage as Markdown."""
    false = [
        [f"{r['case']}, level {r['level']:g}", r["audits"], r["found"], _limit(r), r["cannot_tell"]]
        for r in table["false"]
    ]
    overlaps = sorted({r["overlap"] for r in table["power"]})
    power = []
    for times in sorted({r["repetitions"] for r in table["power"]}):
        own = {r["overlap"]: r for r in table["power"] if r["repetitions"] == times}
        shares = [f"{own[x]['found'] / own[x]['audits']:.0%}" for x in overlaps]
        power.append([f"read {times} × as often", *shares])
    covered = [
        [r["interval"], r["draws"], f"{r['covered']['rate']:.1%}"] for r in table["coverage"]
    ]
    shown = [f"ρ = {x:g}" for x in overlaps]
    return "\n".join(
        [
            f"Measured on {table['date']} ({table['trainings']} trainings):\n",
            _rows(["nothing to find", "audits", "found", "at most", "cannot tell"], false),
            _rows(["found, where texts were seen (level 0.01)", *shown], power),
            _rows(["interval of 95 %", "draws", "holds the truth"], covered),
        ]
    )


def _limit(row: dict[str, Any]) -> str:
    return f"{row['found_rate']['limit_clustered']:.1%}"


def _rows(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


if __name__ == "__main__":
    found = read_table()
    if found is None:
        raise SystemExit("no table is shipped: run `metastable audit validate` and copy its table.")
    text = FILE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    FILE.write_text(f"{before}{BEGIN}\n{tables(found)}\n{END}{after}", encoding="utf-8")
