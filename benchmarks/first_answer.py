"""How soon the first answer comes: CPU seconds of `metastable run`, and 500 starts on one cache.

Each start is a process of its own, with a home of its own. Seconds are those of the processor
(user and system), the best of three: other work on the machine must not count. `python
benchmarks/first_answer.py [--starts 500] [--quick]` writes results/first_answer.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
RESULTS = ROOT / "benchmarks" / "results"
AT_ONCE = 8
DAMAGED = 25  # every so many starts an entry is cut short before it

PROGRAM = """
import sys
from metastable.core.numerics import jax, jnp
n = int(sys.argv[1])
step = jax.jit(lambda x: x + jax.nn.softmax(3.0 * x @ x.T) @ x)
x = jnp.eye(n)
for _ in range(3):
    x = step(x)
assert bool(jnp.isfinite(x).all())
print(repr(float(x.sum())))
"""


def environment(home: str, **more: str) -> dict[str, str]:
    left_out = "JAX_COMPILATION", "JAX_PERSISTENT", "METASTABLE", "XDG_CACHE"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {"HOME": home} | more


def cpu_seconds(words: list[str], where: dict[str, str]) -> float:
    """User and system seconds of one process and its children."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, *words], env=where, stdout=quiet, stderr=quiet)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def first_answers(rounds: int) -> list[dict[str, Any]]:
    """Without a cache, with an empty one, and with a filled one; with a kept folder and without."""
    rows = []
    for kept in (False, True):
        best = dict.fromkeys(("no cache", "first start", "second start"), float("inf"))
        for _ in range(rounds):
            with TemporaryDirectory() as home:
                for name in best:
                    more = {"METASTABLE_CACHE": "off"} if name == "no cache" else {}
                    out = ["--out", str(Path(home) / name)] if kept else []
                    words = ["-m", "metastable", "run", *out]
                    best[name] = min(best[name], cpu_seconds(words, environment(home, **more)))
        rows.append({"command": "metastable run" + (" --out DIR" if kept else ""), **best})
    return rows


def many_starts(count: int, seed: int = 0) -> dict[str, Any]:
    """Starts of a small program, eight at a time, on one cache some of whose entries are damaged.

    Every program of size n must print what the first of that size printed.
    """
    draw = random.Random(seed)
    began, running, failures, words, answers = time.time(), [], [], 0, {}
    damaged = 0
    with TemporaryDirectory() as home:

        def end(process: subprocess.Popen, size: int) -> None:
            nonlocal words
            out, err = process.communicate()
            words += len(err.splitlines())
            if process.returncode or answers.setdefault(size, out) != out:
                failures.append({"code": process.returncode, "stderr": err[-500:]})

        for number in range(count):
            if number % DAMAGED == DAMAGED - 1:
                found = list(Path(home).rglob("*.compiled"))
                if found:
                    path = draw.choice(found)
                    path.write_bytes(path.read_bytes()[: draw.randrange(200)])
                    damaged += 1
            if len(running) == AT_ONCE:
                end(*running.pop(0))
            size = 4 + number % 5
            how: dict[str, Any] = {"env": environment(home), "text": True}
            how |= dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
            process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(size)], **how)
            running.append((process, size))
        for each in running:
            end(*each)
        entries = len(list(Path(home).rglob("*.compiled")))
        parts = len(list(Path(home).rglob("part-*")))
    return {
        "starts": count,
        "at_once": AT_ONCE,
        "entries_damaged_on_purpose": damaged,
        "failures": failures,
        "lines_on_stderr": words,
        "entries_at_the_end": entries,
        "unfinished_files_at_the_end": parts,
        "seconds": time.time() - began,
    }


def measure(quick: bool = False, starts: int = 500) -> dict[str, Any]:
    rows = first_answers(1 if quick else 3)
    summary = [
        f"{row['command']}: {row['no cache']:.1f} s without a cache, {row['first start']:.1f} s at "
        f"the first start, {row['second start']:.1f} s at the second (CPU seconds)"
        for row in rows
    ]
    many = many_starts(24 if quick else starts)
    summary.append(
        f"{many['starts']} starts, {AT_ONCE} at once, {many['entries_damaged_on_purpose']} entries "
        f"damaged: {len(many['failures'])} failures, {many['lines_on_stderr']} lines on stderr"
    )
    return {"rows": rows, "many_starts": many, "summary": summary}


def main() -> None:
    from benchmarks.timing import machine

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="one round, 24 starts, nothing kept")
    arguments = parser.parse_args()
    result = measure(arguments.quick, arguments.starts)
    result |= {"machine": machine(), "load": os.getloadavg()[1]}
    print("\n".join(result["summary"]))
    if not arguments.quick:
        (RESULTS / "first_answer.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
