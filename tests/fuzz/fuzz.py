"""Thousands of odd inputs through the command line, seeded; what is done is kept, failures told.

    python tests/fuzz/fuzz.py --count 10000 --workers 2 --state out/fuzz --seed 0
    python tests/fuzz/fuzz.py --seed 0 --case 1234      # one case again, its output shown

Case k of seed s is always the same. Exit code 1 when a case fails.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from tests.fuzz.fuzz_case import Case, reproducer  # noqa: E402
from tests.fuzz.fuzz_checks import judge  # noqa: E402
from tests.fuzz.fuzz_damages import damage_case  # noqa: E402
from tests.fuzz.fuzz_folders import folder_case  # noqa: E402
from tests.fuzz.fuzz_options import option_case  # noqa: E402
from tests.fuzz.fuzz_pool import Worker  # noqa: E402
from tests.fuzz.fuzz_specs import spec_case  # noqa: E402

__all__ = ["KINDS", "case_of", "cases", "run_cases"]

# kind → how many of a hundred cases
KINDS = {
    "spec run": 20,
    "spec sweep": 12,
    "spec learn": 14,
    "spec audit": 10,
    "spec reproduce": 8,
    "options": 22,
    "folders": 7,
    "damage": 7,
}


def case_of(seed: int, number: int, *, cheap: bool = False) -> Case:
    """Case `number` of a seed; `cheap` ones compute next to nothing."""
    chance = random.Random(f"{seed}/{number}")
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    if kind.startswith("spec "):
        case = spec_case(kind.removeprefix("spec "), chance, cheap=cheap)
    elif kind == "folders":
        case = folder_case(chance)
    else:
        case = {"options": option_case, "damage": damage_case}[kind](chance, cheap=cheap)
    return replace(case, seed=seed, number=number, cheap=cheap)


def cases(seed: int, count: int, *, cheap: bool = False) -> Iterator[Case]:
    """The first `count` cases of a seed."""
    for number in range(count):
        yield case_of(seed, number, cheap=cheap)


def run_cases(
    todo: list[Case], state: Path, workers: int, heard: Any, deadline: float = float("inf")
) -> None:
    """Run cases in warm processes; `heard(record)` gets each result as it comes.

    Cases of a kind run one after the other, so that what they import and compile is shared.
    """
    waiting = deque(sorted(todo, key=lambda case: (case.kind, case.name)))
    lock = threading.Lock()

    def serve(slot: int) -> None:
        worker = Worker(state / f"worker{slot}", state / "bases")
        try:
            while time.monotonic() < deadline:
                with lock:
                    if not waiting:
                        return
                    # The second worker begins at the other end.
                    case = waiting.popleft() if slot % 2 == 0 else waiting.pop()
                result = worker.run(case)
                outcome, wrong = judge(case, result)
                record = {
                    "case": case.number, "kind": case.kind, "name": case.name, "outcome": outcome,
                    "cpu": round(result.get("cpu", 0.0), 2), "wrong": wrong,
                    "note": result.get("note", ""), "stdout": result.get("stdout", "")[-300:],
                    "stderr": result.get("stderr", "")[-1500:],
                }  # fmt: skip
                if not wrong:
                    del record["stdout"], record["stderr"]
                with lock:
                    heard(record)
        finally:
            worker.stop()

    threads = [threading.Thread(target=serve, args=(slot,)) for slot in range(workers)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        waiting.clear()  # the cases under way are finished and kept
        for thread in threads:
            thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, default=Path("out/fuzz"))
    parser.add_argument("--only", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--case", type=int, metavar="K", help="run this one and show its output")
    parser.add_argument("--cheap", action="store_true", help="the cases of `make test`")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    asked = parser.parse_args()
    if asked.case is not None:
        return _one(case_of(asked.seed, asked.case, cheap=asked.cheap), asked.state / "bases")
    asked.state.mkdir(parents=True, exist_ok=True)
    kept = asked.state / f"{'cheap' if asked.cheap else 'seed'}{asked.seed}.jsonl"
    records = _read(kept)
    chosen = [
        case for case in cases(asked.seed, asked.count, cheap=asked.cheap)
        if not asked.only or case.kind.startswith(asked.only)
    ]  # fmt: skip
    todo = [case for case in chosen if case.number not in records]
    began, done = time.monotonic(), [0]
    with kept.open("a", encoding="utf-8") as file:

        def heard(record: dict[str, Any]) -> None:
            file.write(json.dumps(record) + "\n")
            file.flush()
            records[record["case"]] = record
            done[0] += 1
            if record["wrong"]:
                print(f"\n{record['case']} {record['kind']}: {record['wrong'][0][:150]}")
            minutes = (time.monotonic() - began) / 60
            line = f"{done[0]} of {len(todo)}, {done[0] / max(minutes, 1e-9):.0f} a minute"
            print(f"\r{line}, {record['kind']:16}", end="", file=sys.stderr, flush=True)

        run_cases(todo, asked.state, asked.workers, heard, began + 60 * asked.minutes)
    print(file=sys.stderr)
    by_number = {case.number: case for case in chosen}
    return _summary([records[k] for k in sorted(by_number.keys() & records.keys())], by_number)


def _read(file: Path) -> dict[int, dict[str, Any]]:
    """Records by case; a line cut short by a kill is left out."""
    records = {}
    for line in file.read_text().splitlines() if file.is_file() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        records[record["case"]] = record
    return records


def _one(case: Case, bases: Path) -> int:
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        worker = Worker(Path(folder) / "worker", bases)
        try:
            result = worker.run(case)
        finally:
            worker.stop()
    outcome, wrong = judge(case, result)
    print(reproducer(case, result.get("note", "")))
    for name in ("code", "cpu", "stdout", "stderr", "changes"):
        print(f"--- {name}\n{result.get(name, '')}")
    print(f"--- {outcome}", *wrong, sep="\n")
    return 1 if wrong else 0


def _summary(records: list[dict[str, Any]], by_number: dict[int, Case]) -> int:
    counts = Counter((record["kind"], record["outcome"]) for record in records)
    spent = Counter()
    for record in records:
        spent[record["kind"]] += record["cpu"]
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:16} {outcome:40} {count:6}")
    for kind, seconds in sorted(spent.items()):
        print(f"{kind:16} {'processor seconds':40} {seconds:6.0f}")
    failed = [record for record in records if record["wrong"]]
    for record in failed:
        print(f"\n== {record['wrong'][0]}")
        print(reproducer(by_number[record["case"]], record["note"])[:2000])
    print(f"\n{len(records)} cases, {len(failed)} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
