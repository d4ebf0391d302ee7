"""Error rates over many audits whose truth is known: tables, their limits, and the sentence told.

`audit.validate` makes the audits. The table of a whole validation comes with the package, and pages
of audits quote it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from metastable.audit.corpus import plural
from metastable.audit.evidence import REPRODUCES, TRAINED
from metastable.audit.spec import AuditConfig
from metastable.audit.verdict import CANNOT_TELL
from metastable.core.folder import write_whole

TABLE = "validation.json"
LEVELS = (0.05, 0.01)  # of both findings together; all but false ones are counted at the last
NULL, CENTURY, DECADES = "matched control", "control of another century", "control of later decades"
NAMES = {
    "basic": "small transformers",
    "complex": "transformers",
    "gru": "recurrent networks",
    "gpt2": "fine-tuned GPT-2 models",
}
CASE = ("kind", "repetitions", "overlap", "documents")


def tabulate(audits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Findings counted: false ones by case and level, true ones by what was seen how often."""
    false = [row for row in audits if row["overlap"] == 0]
    seen = [row for row in audits if row["overlap"] > 0]
    matched = [row for row in false if row["case"] == NULL]
    parts = [("level", key) for key in ("kind", "repetitions", "documents")]
    return {
        "false": [head | _rates(own) for head, own in _grouped(false, ("case", "level"))],
        "false_by": [
            head | _counts(own) for keys in parts for head, own in _grouped(matched, keys)
        ],
        "power": [head | _rates(own) for head, own in _grouped(seen, ("repetitions", "overlap"))],
        "power_by": [head | _counts(own) for head, own in _grouped(seen, CASE)],
    }


def tabulate_coverage(intervals: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Share of intervals of 95 % that hold the truth, by name."""
    return [
        head | {"draws": len(own), "covered": clustered_rate(own, lambda row: row["covered"])}
        for head, own in _grouped(intervals, ("interval",))
    ]


HITS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "found": lambda row: row["found"],
    "trained_on": lambda row: row["trained_on"] == TRAINED,
    "reproduces": lambda row: row["reproduces"] == REPRODUCES,
    "cannot_tell": lambda row: CANNOT_TELL in (row["trained_on"], row["reproduces"]),
}


def _counts(audits: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {"audits": len(audits)} | {k: sum(map(hit, audits)) for k, hit in HITS.items()}


def _rates(audits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rates = {f"{name}_rate": clustered_rate(audits, hit) for name, hit in HITS.items()}
    return _counts(audits) | rates


def clustered_rate(
    rows: Sequence[Mapping[str, Any]], is_hit: Callable[[Mapping[str, Any]], bool]
) -> dict[str, Any]:
    """A rate, its exact limits, and limits that hold for audits of one training that are alike.

    `limit` is the exact one-sided upper 95 % limit (Clopper and Pearson). The clustered ones are
    the same on an effective number of audits, n over the design effect (Korn and Graubard, Surv.
    Methodol. 24, 1998): the variance of the rate over trainings over that of independent audits.
    """
    sums: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        own = sums.setdefault((row["kind"], row["repetitions"], row["deal"]), [0, 0])
        own[0] += bool(is_hit(row))
        own[1] += 1
    hits, sizes = np.array(list(sums.values())).T
    n, count = int(sizes.sum()), int(hits.sum())
    rate, effect = count / n, 1.0
    if 0 < count < n and len(sizes) > 1:
        spread = np.sum((hits - rate * sizes) ** 2) * len(sizes) / (len(sizes) - 1) / n**2
        effect = max(1.0, float(spread / (rate * (1 - rate) / n)))

    def limits(scale: float, tail: float) -> list[float]:
        k, rest = count / scale, (n - count) / scale
        low = stats.beta.ppf(tail, k, rest + 1) if k else 0.0
        high = stats.beta.ppf(1 - tail, k + 1, rest) if rest else 1.0
        return [float(low), float(high)]

    return {
        "rate": rate,
        "limit": limits(1.0, 0.05)[1],
        "limit_clustered": limits(effect, 0.05)[1],
        "interval_clustered": limits(effect, 0.025),
    }


def _grouped(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> list[tuple[dict[str, Any], list[Mapping[str, Any]]]]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [(dict(zip(keys, head, strict=True)), own) for head, own in groups.items()]


def write_table(path: Path, table: Mapping[str, Any]) -> None:
    """JSON with a line for each row."""
    lines = []
    for name, value in table.items():
        rows = [json.dumps(row) for row in value] if isinstance(value, list) else None
        text = "[\n  " + ",\n  ".join(rows) + "\n ]" if rows else json.dumps(value)
        lines.append(f" {json.dumps(name)}: {text}")
    write_whole(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def describe_rates(table: Mapping[str, Any]) -> list[str]:
    """The table in a few lines."""
    lines = [f"{table['trainings']} trainings; false findings:"]
    for row in table["false"]:
        rate = row["found_rate"]
        lines.append(
            f"  {row['case']}, level {row['level']:g}: {row['found']} of {row['audits']} audits "
            f"({rate['limit']:.1%} at most, {rate['limit_clustered']:.1%} over trainings), "
            f"cannot tell in {row['cannot_tell']}"
        )
    lines.append(f"findings where texts were seen, level {LEVELS[-1]:g}:")
    for row in sorted(table["power"], key=lambda row: (row["repetitions"], row["overlap"])):
        shares = {name: row[name] / row["audits"] for name in ("trained_on", "reproduces")}
        lines.append(
            f"  overlap {row['overlap']:g}, {row['repetitions']} times as often: trained on "
            f"{shares['trained_on']:.0%}, reproduces {shares['reproduces']:.0%} of {row['audits']}"
        )
    lines.append("95 % intervals that hold the truth:")
    for row in table["coverage"]:
        lines.append(f"  {row['interval']}: {row['covered']['rate']:.1%} of {row['draws']}")
    return lines


def read_table() -> dict[str, Any] | None:
    """The table that came with this version; None where there is none."""
    path = Path(__file__).with_name(TABLE)
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def error_sentence(table: Mapping[str, Any], config: AuditConfig, documents: Sequence[int]) -> str:
    """How often the audit errs, and what it finds in the cases nearest to this one."""
    model, source = config.model, config.corpus.kind
    (null,) = (r for r in table["false"] if (r["case"], r["level"]) == (NULL, LEVELS[-1]))
    limit = null["found_rate"]["limit_clustered"]
    told = (
        f"In {null['audits']} audits of models that had not seen the texts, this procedure found "
        f"something in {null['found']} ({limit:.1%} at most, 95 % limit, at level {LEVELS[-1]:g})."
    )
    kinds = {"transformer": "basic" if model.size == "basic" else "complex", "folder": "gpt2"}
    kind, least = kinds.get(model.family, "gru"), min(documents)
    rows = [row for row in table["power_by"] if row["kind"] == kind]
    if model.family == "text" or source in ("digits", "array", "canaries") or not rows:
        return told + " No case there is like this one: its power is not known by experiment."
    size = min((r["documents"] for r in rows), key=lambda n: abs(math.log(n / max(least, 1))))
    own = [r for r in rows if r["documents"] == size and r["overlap"] == 0.5]
    often = lambda times: "as often" if times == 1 else f"{times} times as often"
    shares = [
        f"{r['found'] / r['audits']:.0%} where these were read {often(r['repetitions'])}"
        for r in sorted(own, key=lambda r: r["repetitions"])
    ]
    told += (
        f" Of audits of {NAMES[kind]} with {size} documents in each set, half of the protected "
        f"ones seen, it found {', '.join(shares)} as other texts ({own[0]['audits']} audits each)."
    )
    if model.family == "folder" or model.size == "large":
        told += " Models there were small, of at most 0.4 million parameters: others may differ."
    if not size / 2 <= least <= 2 * size:
        told += f" This audit has {plural(least, 'document')}, unlike any of those."
    return told
