"""Damage files of results, open them, and count what happens.

python tests/fuzz/damages.py --count 200 --seed 0

Every damage must be refused in one line, repaired bit for bit, or give exactly the same numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.audit.small import write_config
from tests.learn.small_spec import SPEC as LESSON
from tests.sweep.stores import SMALL

KINDS = ("delete", "empty", "halve", "flip")
RUN = "run --dim 3 --tokens 8 --beta 2 --horizon 2 --set flow.frames=5 --out".split()
SWEEP = SMALL.format(count=2, repetitions=1)


class Answer(NamedTuple):
    """What a command did: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """Whether it ended with one line that says why."""
        return self.code in (1, 2) and len(self.err.strip().splitlines()) == 1


class Case(NamedTuple):
    """A folder, and how to open it: numbers by which two of them are compared."""

    folder: Path
    open: Callable[[Path], tuple[Answer, Any]]


def call(*words: Any) -> Answer:
    """A command of `metastable` in this process; a traceback becomes the exit code 70."""
    from metastable.cli import main

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["metastable", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    except Exception as error:
        return Answer(70, out.getvalue(), repr(error))
    finally:
        sys.argv = before
    return Answer(code, out.getvalue(), err.getvalue())


def files_of(folder: Path) -> list[Path]:
    """Files of a result, those aside that are made again from the others."""
    paths = (path.relative_to(folder) for path in sorted(folder.rglob("*")))
    derived = {"report.html", "figures", "page.json", "log.jsonl"}
    derived |= {"ranked_trained_on.csv", "ranked_reproduces.csv"}
    return [p for p in paths if (folder / p).is_file() and p.parts[0] not in derived]


def damage(path: Path, kind: str, random: np.random.Generator) -> bool:
    """Damage a file; False where there is nothing to take away from it."""
    data = bytearray(path.read_bytes())
    if kind == "delete":
        path.unlink()
        return True
    if not data:
        return False
    if kind == "flip":
        data[random.integers(len(data))] ^= 1 << int(random.integers(8))
    path.write_bytes(data if kind == "flip" else data[: len(data) // 2 if kind == "halve" else 0])
    return True


def make_run(root: Path) -> Case:
    assert call(*RUN, root / "run").code == 0
    return Case(root / "run", open_run)


def open_run(folder: Path) -> tuple[Answer, Any]:
    answer = call("compare", folder, "--json")
    return answer, json.loads(answer.out)["rows"] if answer.out else None


def store_numbers(store: Path) -> dict[str, bytes]:
    """All arrays of a Zarr store, by name."""
    import xarray

    with xarray.open_datatree(store, engine="zarr", consolidated=False) as tree:
        nodes = {node.path: node.to_dataset(inherit=False) for node in tree.subtree}
        return {f"{p}/{n}": a.values.tobytes() for p, d in nodes.items() for n, a in d.items()}


def make_learn(root: Path) -> Case:
    spec = root / "lesson.toml"
    spec.write_text(LESSON.replace("40000", "60"))
    assert call("learn", spec, "--out", root / "learn").code == 0

    def open_lesson(folder: Path) -> tuple[Answer, Any]:
        """Refused as finished: then every file was compared; or made again from checkpoints."""
        answer = call("learn", spec, "--out", folder)
        if answer.code and "already holds this run, finished" not in answer.err:
            return answer, None
        numbers = store_numbers(folder / "data.zarr")
        return answer._replace(code=0, err=""), (numbers, (folder / "verdicts.json").read_bytes())

    return Case(root / "learn", open_lesson)


def make_audit(root: Path) -> Case:
    config = write_config(root / "corpus", steps=2)
    answer = call("audit", "run", config, "--out", root / "audit")
    assert answer.code == 0, answer.err
    return Case(root / "audit", open_audit)


def open_audit(folder: Path) -> tuple[Answer, Any]:
    answer = call("report", folder)
    numbers = (folder / "ranked_trained_on.csv").read_bytes() if answer.code == 0 else None
    return answer, numbers


def make_sweep(root: Path) -> Case:
    spec = root / "sweep.toml"
    spec.write_text(SWEEP)
    command = ("sweep", spec, "--workers", 1, "--out")
    answer = call(*command, root / "sweep")
    assert answer.code == 0, answer.err

    def repair(folder: Path) -> tuple[Answer, Any]:
        """The same command again, and all files but the log."""
        answer = call(*command, folder)
        kept = [p for p in files_of(folder) if p.name != "manifest.json"]  # has dates
        return answer, {p: (folder / p).read_bytes() for p in kept}

    return Case(root / "sweep", repair)


def judge(case: Case, whole: Any, file: Path, kind: str, random: np.random.Generator) -> str:
    """Damage one file of a copy and open it: what became of it, in a word."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "copy"
        shutil.copytree(case.folder, folder)
        if not damage(folder / file, kind, random):
            return "nothing to damage"
        answer, numbers = case.open(folder)
    if answer.code == 70:
        return f"TRACEBACK {answer.err[:80]}"
    if answer.code == 130:
        return "FALSE INTERRUPT"
    if numbers is None:
        return "refused in one line" if answer.refused else f"NOT ONE LINE {answer.err[:80]!r}"
    return "the same numbers" if numbers == whole else "OTHER NUMBERS"


MAKERS = {"run": make_run, "learn": make_learn, "audit": make_audit, "sweep": make_sweep}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(MAKERS), action="append")
    given = parser.parse_args()
    random = np.random.default_rng(given.seed)
    chosen = given.only or list(MAKERS)
    with tempfile.TemporaryDirectory() as place:
        cases = {name: MAKERS[name](Path(place)) for name in chosen}
        whole = {name: case.open(case.folder)[1] for name, case in cases.items()}
        counts: Counter[tuple[str, str, str]] = Counter()
        for k in range(given.count):
            name = chosen[k % len(chosen)]
            files = files_of(cases[name].folder)
            file, kind = files[random.integers(len(files))], KINDS[k // len(chosen) % len(KINDS)]
            outcome = judge(cases[name], whole[name], file, kind, random)
            counts[name, kind, outcome] += 1
            if outcome[:2].isupper():
                print(f"{name}: {kind} {file}: {outcome}", flush=True)
    for (name, kind, outcome), count in sorted(counts.items()):
        print(f"{name:6} {kind:7} {outcome:24} {count}")
    return int(any(outcome[:2].isupper() for _, _, outcome in counts))


if __name__ == "__main__":
    sys.exit(main())
