"""Worker processes and their watchdog: time, memory, processes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tests.fuzz.fuzz_case import Case

__all__ = ["Worker"]

ROOT = Path(__file__).resolve().parents[2]
CPU = 20.0  # seconds of processor time that a case may take
PATIENCE = 4.0  # seconds of it before a case that asks for huge work is interrupted
STILL = 60.0  # seconds without any use of the processor: it waits for ever
PREPARING = 600.0  # seconds of wall time for imports and for the bases
MEMORY = 4e9  # bytes that a case may add
WORN = 2.5e9  # bytes at which a worker is replaced
MAPS = 40_000  # mappings at which it is: compiled code keeps them, and 65 530 is the limit
CASES = 300
PROCESSES = 24


class Worker:
    """One worker process, started when needed and replaced when worn, hung or dead."""

    def __init__(self, folder: Path, bases: Path):
        self.folder, self.bases = folder.resolve(), bases.resolve()
        self.process: subprocess.Popen[bytes] | None = None
        self.served = 0

    def run(self, case: Case) -> dict[str, Any]:
        """The result of a case; `ended` says why it has none."""
        if self.process is None:
            self._start()
        assert self.process is not None and self.process.stdin is not None
        self.served += 1
        try:
            self.process.stdin.write(base64.b64encode(pickle.dumps(case)) + b"\n")
            self.process.stdin.flush()
            result = self._watch(case)
        except OSError as error:
            result = {"ended": f"died: {error}"}
        result["here"] = str(self.folder / "root" / "work" / "here")
        worn = result.get("rss", 0) > WORN or result.get("maps", 0) > MAPS
        # A compiled call that Ctrl-C left behind would be counted against the next case.
        left = result.get("interrupted", False)
        if "ended" in result or worn or left or self.served >= CASES:
            self.stop()
        return result

    def stop(self) -> None:
        """End the process and whatever it started."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe and pipe.close()
        self.process, self.served = None, 0

    def _start(self) -> None:
        shutil.rmtree(self.folder / "root", ignore_errors=True)
        for name in ("home", "tmp", "settings"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        settings = str(self.folder / "settings")
        known = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COVERAGE"))}
        environment = known | {
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_CACHE_HOME": settings,
            "METASTABLE_CACHE": settings,
            "MPLCONFIGDIR": settings,
            "JAX_COMPILATION_CACHE_DIR": str(self.folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "Agg",
            "COLUMNS": "100",
        }
        command = [sys.executable, "-m", "tests.fuzz.fuzz_worker"]
        with (self.folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.folder), str(self.bases)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,  # a second line kept in a buffer of ours would never be waited for
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def _watch(self, case: Case) -> dict[str, Any]:
        assert self.process is not None
        process = psutil.Process(self.process.pid)
        line = self._line(time.monotonic() + PREPARING)
        if line is None:
            return {"ended": self._death() or "hang while it was prepared"}
        if line["event"] == "end":
            return line
        began, resident = _used(process)[:2]
        last, moved, interrupted = began, time.monotonic(), False
        while True:
            line = self._line(time.monotonic() + 0.25)
            if line is not None:
                return line | {"interrupted": interrupted}
            death = self._death()
            if death:
                return {"ended": death}
            used, memory, count = _used(process)
            if used > last + 0.05:
                last, moved = used, time.monotonic()
            if case.long and not interrupted and used - began > PATIENCE:
                os.kill(process.pid, signal.SIGINT)
                interrupted = True
            if used - began > CPU:
                after = " after Ctrl-C" if interrupted else ""
                return {"ended": f"hang{after}", "cpu": used - began}
            if time.monotonic() - moved > STILL:
                return {"ended": "waits for ever", "cpu": used - began}
            if memory - resident > MEMORY:
                return {"ended": "memory", "cpu": used - began}
            if count > PROCESSES:
                return {"ended": "processes", "cpu": used - began}

    def _line(self, until: float) -> dict[str, Any] | None:
        """The next answer, or None when it has not come by then or never will."""
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0))
        line = self.process.stdout.readline() if ready else b""
        return json.loads(line) if line else None

    def _death(self) -> str:
        assert self.process is not None
        code = self.process.poll()
        return "" if code is None else f"died: exit code {code}"


def _used(process: psutil.Process) -> tuple[float, float, int]:
    """Processor seconds, resident bytes and number of a process and its children."""
    seconds = memory = 0.0
    family = [process]
    with contextlib.suppress(psutil.Error):
        family += process.children(recursive=True)
    for one in family:
        with contextlib.suppress(psutil.Error):
            times = one.cpu_times()
            seconds += times.user + times.system
            if one is process:
                seconds += times.children_user + times.children_system
            memory += one.memory_info().rss
    return seconds, memory, len(family)
