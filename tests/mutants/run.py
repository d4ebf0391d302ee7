"""Twenty planted bugs, one at a time: does the suite notice each of them?

    python tests/mutants/run.py              # all of them
    python tests/mutants/run.py --list       # what they are
    python tests/mutants/run.py --only 7     # one of them

`mutants.toml` says what is wrong, where, and which one or two tests should see it. Those tests are
first run on a copy of the package as it is, and must pass; then each bug is planted into that copy,
and its tests must fail. `SURVIVED` means that they did not: a test is missing. `broken` means that
they could not be run: the list has an error. Exit code 0 only when every bug is caught.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["LIST", "ROOT", "Mutant", "read_mutants"]

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")
COPIED, LINKED = ("src", "tests"), ("pyproject.toml", "experiments", "examples", "reproductions")
MARKS = "not claim and not document"
CAUGHT, SURVIVED, BROKEN = "caught", "SURVIVED", "broken"
LONGEST = 600  # seconds for the tests of one mutant; a bug may make them hang


@dataclass(frozen=True)
class Mutant:
    """One bug: in `file` (below src/metastable) `old` becomes `new`, and `tests` should see it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """The text of the file with the bug; a ValueError where that cannot be."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"the old text occurs {found} times in {self.file}, not once")
        wrong = text.replace(self.old, self.new)
        try:
            compile(wrong, self.file, "exec")
        except SyntaxError as error:
            raise ValueError(f"{self.file} is no Python with the new text: {error}") from None
        return wrong


@dataclass(frozen=True)
class Finding:
    """What became of mutant `number`, after how many seconds; `output` where it was not caught."""

    number: int
    name: str
    verdict: str
    seconds: float
    output: str = ""


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """The list; a ValueError where an entry has other keys than it should."""
    with path.open("rb") as file:
        entries = tomllib.load(file)["mutant"]
    try:
        return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    except (TypeError, KeyError) as error:
        raise ValueError(f"{path.name}: {error}") from None


class Copy:
    """A copy of the package and its tests in which bugs may be planted."""

    def __init__(self, home: Path):
        self.home = home
        ignored = shutil.ignore_patterns("__pycache__")
        for name in COPIED:
            shutil.copytree(ROOT / name, home / name, ignore=ignored)
        for name in LINKED:
            (home / name).symlink_to(ROOT / name)

    def run(self, *words: str) -> tuple[int | None, str]:
        """Exit code, None past the time limit, and output of this Python in the copy."""
        # Settings of the compiler's cache and of threads are those of whoever called.
        told = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.home / "src"), str(self.home)])
        }
        try:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=self.home,
                env=told,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired:
            return None, f"the tests ran for more than {LONGEST} s"
        return done.returncode, done.stdout

    def test(self, tests: Sequence[str]) -> tuple[int | None, str]:
        how = ("-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-m", MARKS)
        return self.run("-m", "pytest", *how, *tests)

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """The copy with one bug, which is gone again afterwards."""
        file = self.home / "src" / "metastable" / mutant.file
        right = file.read_bytes()
        wrong = mutant.planted(right.decode())
        # Bytecode goes by size and seconds, which a quick change of one sign does not alter.
        compiled = file.parent / "__pycache__"
        shutil.rmtree(compiled, ignore_errors=True)
        file.write_bytes(wrong.encode())
        try:
            yield
        finally:
            file.write_bytes(right)
            shutil.rmtree(compiled, ignore_errors=True)


def check_copy(copy: Copy, mutants: Sequence[Mutant]) -> str:
    """What is wrong before any bug is planted, "" for nothing."""
    code, told = copy.run("-c", "import metastable; print(metastable.__file__)")
    if code != 0 or not Path(told.strip()).is_relative_to(copy.home):
        return f"the tests would not import the copy, but {told.strip()}"
    code, told = copy.test(sorted({test for mutant in mutants for test in mutant.tests}))
    if code != 0:
        return f"the tests fail without any bug:\n{told}"
    last = told.strip().splitlines()[-1]
    return f"a test that is skipped sees no bug:\n{last}" if "skipped" in last else ""


def try_mutant(copy: Copy, number: int, mutant: Mutant) -> Finding:
    """Plant a bug, run its tests, and say what became of it."""
    began = time.perf_counter()
    try:
        with copy.planted(mutant):
            code, told = copy.test(mutant.tests)
    except (ValueError, OSError) as error:
        code, told = -1, str(error)
    verdict = {1: CAUGHT, 0: SURVIVED}.get(code, BROKEN)  # pytest: 1 is "some tests failed"
    seconds = time.perf_counter() - began
    return Finding(number, mutant.name, verdict, seconds, "" if verdict == CAUGHT else told)


def try_all(chosen: dict[int, Mutant], say: Callable[[str], None]) -> list[Finding]:
    """All verdicts, each told as it comes; none where the copy itself fails."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder).resolve())
        say(f"without any bug: the tests of {len(chosen)} mutants …")
        if wrong := check_copy(copy, list(chosen.values())):
            say(wrong)
            return []
        say(f"they pass, after {time.perf_counter() - began:.0f} s")
        findings = []
        for number, mutant in chosen.items():
            found = try_mutant(copy, number, mutant)
            findings.append(found)
            clock = f"{len(findings)}/{len(chosen)}, {time.perf_counter() - began:.0f} s"
            say(f"{found.verdict:8} {number:2}  {found.name}  ({found.seconds:.0f} s; {clock})")
            if found.output:
                say("\n".join(f"    {line}" for line in found.output.splitlines()[-15:]))
    return findings


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Plant bugs and see whether the tests notice.")
    parser.add_argument("--only", type=int, metavar="N", help="mutant number N alone")
    parser.add_argument("--list", action="store_true", help="say what the mutants are, run none")
    parser.add_argument("--json", action="store_true", help="verdicts as JSON at the end")
    told = parser.parse_args(words)
    mutants = dict(enumerate(read_mutants(), 1))
    if told.only is not None and told.only not in mutants:
        parser.error(f"--only must lie between 1 and {len(mutants)}; got {told.only}")
    chosen = mutants if told.only is None else {told.only: mutants[told.only]}
    if told.list:
        rows = [{"number": number} | asdict(mutant) for number, mutant in chosen.items()]
        lines = [f"{row['number']:2}  {row['name']}  ({row['file']})" for row in rows]
        print(json.dumps(rows, indent=1, ensure_ascii=False) if told.json else "\n".join(lines))
        return 0
    # Beside JSON, what is said on the way belongs to the other stream.
    stream = sys.stderr if told.json else sys.stdout
    findings = try_all(chosen, lambda line: print(line, file=stream, flush=True))
    caught = sum(found.verdict == CAUGHT for found in findings)
    if told.json:
        print(json.dumps([asdict(found) for found in findings], indent=1, ensure_ascii=False))
    print(f"{caught} of {len(chosen)} caught", file=stream)
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
