"""How often verdicts are wrong: false alarms on honest runs, and planted errors that are caught.

    python benchmarks/verdicts.py alarms --runs 100 --workers 2
    python benchmarks/verdicts.py power --runs 50
    python benchmarks/verdicts.py flips --runs 20
    python benchmarks/verdicts.py table

Every kind of field, measure and stepper in turn, from random starts and parameters
(`verdict_runs.py`, `verdict_plants.py`). `flips` puts another kind of field in the place of the
stated one. What was done is kept in the state folder, one line a page; stopped, it goes on where
it was. `table` writes the tables of docs/verdicts.md.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

BATCH = 10  # pages that one process makes of one kind, so that what it compiles serves again
SEEDS = {"alarms": 7, "power": 13, "flips": 17}
# True of every field: what moves obeys the stated equation, on its sphere, with its mass.
COMMON = (
    "frames lie on",
    "tokens move by",
    "the density moves",
    "mean and covariance move",
    "mass",
)


def names_of(what: str) -> list[str]:
    return list(runs_of(what))


def runs_of(what: str) -> dict[str, Any]:
    from verdict_plants import PLANTS
    from verdict_runs import KINDS

    return PLANTS if what == "power" else KINDS


def page(what: str, name: str, number: int) -> dict[str, Any] | None:
    """One run and its rows; None where the other field cannot be run."""
    import verdict_runs as runs

    import metastable as ms

    rng = np.random.default_rng([SEEDS[what], names_of(what).index(name), number])
    began = time.perf_counter()
    run = runs_of(what)[name](rng)
    flown = time.perf_counter() - began
    if what == "flips":
        run = runs.replaced(run, rng)
        if run is None:
            return None
    began = time.perf_counter()
    rows = [
        [
            r.claim,
            r.source,
            r.verdict,
            _number(r.expected),
            _number(r.observed),
            r.tolerance,
            r.error,
        ]
        for r in ms.compare(run).rows
    ]
    took = time.perf_counter() - began
    about = f"{run.frames[0]!r} {run.field!r}"
    return {"page": number, "rows": rows, "run": flown, "compare": took, "about": about}


def _batch(task: tuple[str, str, list[int], Path]) -> str:
    what, name, numbers, path = task
    said = []
    for number in numbers:
        try:
            found = page(what, name, number)
        except Exception as error:
            found = {"page": number, "rows": [], "error": f"{type(error).__name__}: {error}"}
            said.append(f"{name} {number}: {found['error']}")
        found = found or {"page": number, "rows": [], "none": True}
        wrong = [row[0] for row in found["rows"] if row[2] == "disagree"]
        if what == "alarms" and wrong:
            said.append(f"{name} {number}: {wrong} {found['about'][:300]}")
        if what == "power" and not wrong:
            said.append(f"{name} {number}: missed")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(found, ensure_ascii=False) + "\n")
    return "\n".join(said)


def measure(what: str, runs: int, state: Path, only: list[str], workers: int) -> None:
    tasks = list(_tasks(what, runs, state, only))
    # A process lives for a few batches: compiled programs of many shapes fill its memory.
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=6) as pool:
        for done, said in enumerate(pool.imap_unordered(_batch, tasks), 1):
            if said:
                print(said, flush=True)
            print(f"{done} of {len(tasks)} batches", file=sys.stderr, flush=True)


def _tasks(
    what: str, runs: int, state: Path, only: list[str]
) -> Iterator[tuple[str, str, list[int], Path]]:
    missing = {}
    for number, name in enumerate(names_of(what)):
        path = state / what / f"{number:02d}.jsonl"
        done = {line["page"] for line in _lines(path)}
        if not only or name in only:
            missing[name, path] = [k for k in range(runs) if k not in done]
    for first in range(0, runs, BATCH):  # all kinds in turn
        for (name, path), numbers in missing.items():
            if chosen := numbers[first : first + BATCH]:
                yield what, name, chosen, path


def table(state: Path) -> None:
    """The tables of docs/verdicts.md, as Markdown on stdout."""
    flipped = _flipped(state)
    rows: dict[str, dict[str, Any]] = {}
    print("| kind of run | pages | physics rows tested | false alarms |\n|---|---|---|---|")
    total = collections.Counter()
    for number, kind in enumerate(names_of("alarms")):
        pages = [p for p in _lines(state / "alarms" / f"{number:02d}.jsonl") if p["rows"]]
        if not pages:
            continue
        claims = _tested(pages, rows, kind)
        false = sum(any(row[2] == "disagree" for row in p["rows"]) for p in pages)
        total += collections.Counter(pages=len(pages), false=false)
        counted = [claim for claim in claims if (kind, claim) in flipped]
        many = f"{len(counted)} that flip, of {len(claims)}"
        print(f"| {kind} | {len(pages)} | {many} | {false} |")
    print(f"| **all** | {total['pages']} | | {total['false']} |")
    print("\n| row | source | tested | smallest error caught in 80 % of runs |\n|---|---|---|---|")
    for claim, about in rows.items():
        print(f"| {claim} | {about['source']} | {about['count']} | {_smallest(about)} |")
    print("\n| planted error | caught |\n|---|---|")
    for number, name in enumerate(names_of("power")):
        if lines := _lines(state / "power" / f"{number:02d}.jsonl"):
            caught = sum(any(row[2] == "disagree" for row in line["rows"]) for line in lines)
            print(f"| {name} | {caught} of {len(lines)} |")


def _tested(pages: list[dict[str, Any]], rows: dict[str, dict[str, Any]], kind: str) -> set[str]:
    """Physics rows that were tested on these pages; what they allowed is added to `rows`."""
    claims = set()
    for p in pages:
        sampled = sum(row[6] is not None for row in p["rows"])
        for claim, source, verdict, _, _, tolerance, error in p["rows"]:
            if verdict == "not applicable" or claim.startswith(COMMON):
                continue
            claims.add(claim)
            about = rows.setdefault(claim, {"source": source, "count": 0, "sizes": []})
            about["count"] += 1
            about["sampled"] = error is not None
            if error is not None:
                level = NormalDist().inv_cdf(1 - 0.005 / max(sampled, 1))
                about["sizes"].append((level + NormalDist().inv_cdf(0.8)) * error)
            elif _is_number(tolerance):
                about["sizes"].append(float(tolerance))
    return claims


def _flipped(state: Path) -> set[tuple[str, str]]:
    """Kind and claim of every row that disagreed under another field at least once."""
    found = set()
    for number, kind in enumerate(names_of("flips")):
        for line in _lines(state / "flips" / f"{number:02d}.jsonl"):
            found |= {(kind, row[0]) for row in line["rows"] if row[2] == "disagree"}
    return found


def _smallest(about: dict[str, Any]) -> str:
    if not about["sizes"]:
        return "any"
    size = float(np.quantile(about["sizes"], 0.8))
    return ("any" if size == 0 else f"{size:.2g}") + (" (sampled)" if about["sampled"] else "")


def _is_number(text: Any) -> bool:
    try:
        return math.isfinite(float(text))
    except (TypeError, ValueError):
        return False


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, float | int | np.floating | np.integer) else str(value)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["alarms", "power", "flips", "table"])
    parser.add_argument("--runs", type=int, default=100, help="of each kind")
    parser.add_argument("--state", type=Path, default=Path("out/verdicts"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.what == "table":
        table(given.state)
    else:
        measure(given.what, given.runs, given.state, given.only, given.workers)


if __name__ == "__main__":
    main()
