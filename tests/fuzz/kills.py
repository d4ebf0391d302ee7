"""Kill a command at a random instant, run it again to the end, compare with an undisturbed run.

python tests/fuzz/kills.py --command run --count 30

The command is a process of its own, ended by SIGKILL between the moment its folder appears and
the moment it would have finished. All stored numbers must be equal bit for bit; only seconds,
paths and dates may differ.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.audit.small import write_config
from tests.learn.small_spec import SPEC as LESSON

VOLATILE = {"seconds", "out", "started", "duration_seconds", "command"}


def command_of(name: str, root: Path) -> tuple[list[str], str]:
    """The command without its folder, and the file by which the folder is recognised."""
    if name == "learn":
        (root / "lesson.toml").write_text(LESSON.replace("40000", "3000"))
        return ["learn", str(root / "lesson.toml")], "spec.toml"
    if name == "audit":
        return ["audit", "run", str(write_config(root / "corpus", steps=60))], "spec.toml"
    words = "run --dim 3 --tokens 400 --beta 9 --horizon 60 --set flow.frames=241"
    return words.split(), "spec.toml"


def start(command: list[str], out: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "metastable.cli", *command, "--out", str(out)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    while not file.exists() and process.poll() is None:
        time.sleep(0.005)


def numbers(folder: Path) -> dict[str, Any]:
    """Everything a folder holds, without times, dates and paths."""
    stored: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if name.startswith(("figures/", "manifest")) or name == "report.html":
            continue
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                stored[name] = {key: arrays[key].tobytes() for key in arrays.files}
        elif path.suffix == ".json":
            stored[name] = without_times(json.loads(path.read_text()))
        else:
            stored[name] = path.read_bytes()
    return stored


def without_times(node: Any) -> Any:
    if isinstance(node, dict):
        plain = {k: v for k, v in node.items() if k not in VOLATILE}
        if isinstance(plain.get("statistics"), str):  # of a trajectory, JSON in JSON
            plain["statistics"] = json.loads(plain["statistics"])
        return {k: without_times(v) for k, v in plain.items()}
    return [without_times(v) for v in node] if isinstance(node, list) else node


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", choices=("run", "learn", "audit"), default="run")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    equal = killed = finished = 0
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        command, mark = command_of(given.command, root)
        process = start(command, root / "whole")
        wait_for(root / "whole" / mark, process)
        began = time.monotonic()
        error = process.communicate()[1]
        assert process.returncode == 0, error
        working = time.monotonic() - began
        whole = numbers(root / "whole")
        k = 0
        while killed < given.count:
            k += 1
            out = root / f"killed{k}"
            process = start(command, out)
            wait_for(out / mark, process)
            instant = chance.uniform(0.0, working)
            time.sleep(instant)
            early = process.poll() is None
            process.kill()
            process.wait()
            if early or not (out / "manifest.json").exists():
                again = start(command, out)
                error = again.communicate()[1].decode()
                complete = (out / "manifest.json").exists() and "already holds" in error
                assert again.returncode == 0 or complete, error
                killed += 1
            else:
                finished += 1  # does not count as a kill
            stored = numbers(out)
            same = stored == whole
            equal += same
            differ = [n for n in {*stored, *whole} if stored.get(n) != whole.get(n)]
            print(
                f"killed after {instant:5.2f} of {working:.2f} s: "
                f"{'equal' if same else 'DIFFERENT ' + ', '.join(sorted(differ))}",
                flush=True,
            )
    print(f"{given.command}: {killed} kills and {finished} that came too late, {equal} equal")
    return int(equal < killed + finished)


if __name__ == "__main__":
    sys.exit(main())
