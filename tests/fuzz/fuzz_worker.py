"""A warm process that runs cases one after the other, each in a fresh folder.

Reads cases (pickled, base64, one a line) from stdin; writes JSON lines to stdout: `start` once the
folder is ready, then the result. What the command itself prints is caught at the descriptors.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import pickle
import resource
import shutil
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from metastable.core.interrupts import raise_interrupt
from tests.fuzz import fuzz_bases
from tests.fuzz.fuzz_case import Case

__all__ = ["main"]


def main() -> None:
    """Serve until stdin ends; argv: the folder of this worker, the folder of the bases."""
    scratch, bases = Path(sys.argv[1]), Path(sys.argv[2])
    signal.signal(signal.SIGINT, raise_interrupt)
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for descriptor in (0, 1):
        _point(descriptor, os.devnull)
    for line in requests:
        case: Case = pickle.loads(base64.b64decode(line))
        say = lambda told: print(json.dumps(told), file=answers, flush=True)
        try:
            result = _serve(case, scratch, bases, say)
        except Exception:
            result = {"unprepared": traceback.format_exc()}
        result["rss"] = _resident()
        result["maps"] = sum(1 for _ in open("/proc/self/maps", "rb"))
        say({"event": "end", **result})


def _serve(case: Case, scratch: Path, bases: Path, say: Any) -> dict[str, Any]:
    root, home = scratch / "root", scratch / "home"
    here = root / "work" / "here"
    os.chdir(scratch)
    shutil.rmtree(root, ignore_errors=True)
    here.mkdir(parents=True)
    call = lambda argv: _call(argv, scratch)
    result: dict[str, Any] = {"note": ""}
    for path, content in case.files.items():
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            (here / path).mkdir(parents=True, exist_ok=True)
        else:
            (here / path).write_bytes(content)
    for path, target in case.links.items():
        (here / path).symlink_to(target)
    for path, name in case.uses.items():
        (here / path).symlink_to(fuzz_bases.make(name, bases, call))
    if case.damage:
        base, action, how, which, where = case.damage
        result["expected"] = _expected(base, action, bases, here, call)
        _copy(fuzz_bases.make(base, bases, call), here)
        result["note"] = fuzz_bases.damaged(here / "it", how, which, where)
    _stub(case)
    before = _listing(root, home)
    say({"event": "start"})
    os.chdir(here)
    used = _cpu()
    code, stdout, stderr = call(list(case.argv))
    result |= {"code": code, "stdout": stdout, "stderr": stderr, "cpu": round(_cpu() - used, 3)}
    os.chdir(scratch)
    after = _listing(root, home)
    result["changes"] = sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )
    result["existed"] = sorted(before)
    if case.damage[:2] == ("sweep", "again") and code == 0:
        result["store"] = fuzz_bases.store_digest(here / "it")
    for path in home.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return result


def _expected(base: str, action: str, bases: Path, here: Path, call: Any) -> dict[str, Any]:
    """What the undamaged folder answers; asked once, and kept beside the base."""
    place = fuzz_bases.make(base, bases, call)
    if action == "again":
        place = fuzz_bases.make(base.removeprefix("cut "), bases, call)
        answer = {"stdout": (place / "stdout.json").read_text(), "code": 0}
        if base == "sweep":
            answer["store"] = fuzz_bases.store_digest(place / "it")
        return answer
    kept = place / f"{action}.json"
    if not kept.is_file():
        _copy(place, here)
        os.chdir(here)
        code, stdout, stderr = call(fuzz_bases.ACTIONS[base][action])
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({"code": code, "stdout": stdout, "stderr": stderr}))
        part.replace(kept)
        os.chdir(here.parent)
        shutil.rmtree(here)
        here.mkdir()
    return json.loads(kept.read_text())


def _copy(place: Path, here: Path) -> None:
    for name in ("it", "spec.toml", "texts"):
        if (place / name).is_dir():
            shutil.copytree(place / name, here / name)
        elif (place / name).is_file():
            shutil.copy(place / name, here / name)


def _stub(case: Case) -> None:
    """A server that is not started."""
    if "explore" in case.argv:
        import uvicorn

        uvicorn.Server.run = lambda self, sockets=None: [s.close() for s in sockets or ()]  # pyright: ignore


def _call(argv: list[str], scratch: Path) -> tuple[int, str, str]:
    """Run a command in this process; exit code, stdout, stderr."""
    from metastable.cli import main as command

    saved = [os.dup(1), os.dup(2)]
    streams = sys.stdout, sys.stderr
    files = [scratch / "stdout", scratch / "stderr"]
    for descriptor, file in zip((1, 2), files, strict=True):
        _point(descriptor, str(file))
    sys.argv = ["metastable", *argv]
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    code = 0
    try:
        # Entering forgets which warnings were shown, as a fresh process would.
        with warnings.catch_warnings():
            command()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        code = 1
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError, OSError):
                stream.flush()
        sys.stdout, sys.stderr = streams
        for descriptor, old in zip((1, 2), saved, strict=True):
            os.dup2(old, descriptor)
            os.close(old)
    told = [file.read_bytes().decode("utf-8", "backslashreplace") for file in files]
    return code, told[0], told[1]


def _point(descriptor: int, file: str) -> None:
    flags = os.O_RDWR | (0 if file == os.devnull else os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    opened = os.open(file, flags, 0o644)
    os.dup2(opened, descriptor)
    os.close(opened)


def _listing(*folders: Path) -> dict[str, str]:
    """Everything below some folders, links not followed: path → what it is and holds."""
    listing = {}
    for folder in folders:
        for where, inner, files in os.walk(folder):
            for name in inner + files:
                path = os.path.join(where, name)
                if os.path.islink(path):
                    state = "link " + os.readlink(path)
                elif os.path.isdir(path):
                    state = "folder"
                else:
                    with open(path, "rb") as file:
                        state = hashlib.sha1(file.read()).hexdigest()
                listing[path.encode("utf-8", "backslashreplace").decode()] = state
    return listing


def _cpu() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
