"""The process that computes: one line of JSON in, packets out, job after job.

A job is a run to be watched (`folder`) or a single question (`think`); the packet "free" ends each
and says how much memory the process holds. It writes to a pipe. A full pipe stops it, so that a
slow reader slows the computation and memory stays where it is. SIGINT ends a run and keeps it;
SIGUSR1 drops it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from metastable.core.numerics import jax
from metastable.explorer.answers import answer
from metastable.explorer.keep import store, verdicts
from metastable.explorer.limits import spec_for_page
from metastable.explorer.live import live
from metastable.explorer.packet import framed, pack
from metastable.explorer.scene import Scene
from metastable.explorer.theory import DEGREES, predict_experiment, view_of
from metastable.fields.sums import Dense
from metastable.spec.experiment import Experiment

# Bytes a process may grow by before it lets go of what it compiled. The first question and the
# first run with its verdicts compile 100 and 380 MB, each new number of tokens 12 and 70 MB more.
ROOM = {"think": 192 * 2**20, "run": 640 * 2**20}


class Dropped(Exception):
    """Nobody is watching any more."""


class Signals:
    """What was asked from outside since the last job began.

    Between frames the flags are looked at; where work cannot look (`at_once`), a drop interrupts
    it. Nothing is written to the pipe there, so that no packet is cut in two.
    """

    def __init__(self) -> None:
        self.clear()
        signal.signal(signal.SIGINT, self._on_stop)
        signal.signal(signal.SIGUSR1, self._on_drop)

    def clear(self) -> None:
        self.stop = self.drop = self.at_once = False

    def _on_stop(self, *_: object) -> None:
        self.stop = True

    def _on_drop(self, *_: object) -> None:
        self.stop = self.drop = True
        if self.at_once:
            self.at_once = False
            raise Dropped


def main() -> None:
    """Serve jobs until stdin closes."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not end up between packets
    signals = Signals()
    most = _memory() + ROOM[sys.argv[1]]
    _send(out, pack({"kind": "ready"}))
    for line in sys.stdin:
        signals.clear()
        try:
            job = json.loads(line)
        except ValueError:
            # A signal for the run before can cut the line short: the page is told to ask again.
            _send(out, pack({"kind": "error", "error": "The request was lost: start again."}))
            _free(out, most)
            continue
        try:
            _serve(job, out, signals)
        except Dropped:
            pass
        except BrokenPipeError:
            return
        except Exception as error:
            signals.at_once = False
            # The folder of a run that nobody watches goes before the run hears of it.
            if "folder" not in job or Path(job["folder"]).is_dir():
                _send(out, pack({"kind": "error", **_sentence(error, "folder" in job)}))
        _free(out, most)


def _serve(job: dict[str, Any], out: BinaryIO, signals: Signals) -> None:
    if "folder" in job:
        return _run(job, out, signals)
    signals.at_once = True
    packet = answer(job)
    signals.at_once = False
    _send(out, packet)


def _run(job: dict[str, Any], out: BinaryIO, signals: Signals) -> None:
    """One run: head, frames, end; all of it also on tape."""
    started = datetime.now(UTC)
    folder = Path(job["folder"])
    experiment = Experiment.model_validate(job["spec"])
    run = live(experiment, log_clock=job["clock"] == "log", stopped=lambda: signals.stop)
    prediction = predict_experiment(experiment)
    head = {
        "kind": "head",
        "spec": spec_for_page(experiment),
        "prediction": prediction,
        "clock": run.field.clock,
        "view": view_of(run.start),
        "dim": run.start.dim,
        "axis_label": "time t",
        "play_clock": job["clock"],
        "title": experiment.name,
    }
    degrees = min(len(prediction.get("rates") or range(8)), DEGREES)
    scene = Scene(run.field, run.sum or Dense(), degrees)
    with (folder / "run.msr").open("wb") as tape:

        def emit(packet: bytes) -> None:
            tape.write(framed(packet))
            _send(out, packet)
            if signals.drop:
                raise Dropped

        emit(pack(head))
        frames = iter(run)
        emit(scene.packet(next(frames)))
        held = None  # one frame back, since the last one is looked at whatever it costs
        for frame in frames:
            if held is not None:
                emit(scene.packet(held))
            held = frame
        if signals.drop:
            raise Dropped
        if held is not None:
            emit(scene.packet(held, full=True))
        result = run.trajectory()
        store(folder / "result", experiment, result, started)
        _send(out, pack({"kind": "judging"}))
        signals.at_once = True
        rows, note = verdicts(result)
        signals.at_once = False
        outcome = {"name": result.outcome.name, "message": result.outcome.message}
        emit(pack({"kind": "end", "outcome": outcome, "verdicts": rows, "note": note}))


def _sentence(error: Exception, run: bool) -> dict[str, Any]:
    """An error for the one who asked, `foreseen` or not; the latter goes to the server's log."""
    what = "run" if run else "answer"
    if isinstance(error, ValueError):
        return {"error": " ".join(str(error).split("\n---")[0].split()), "foreseen": True}
    if isinstance(error, MemoryError | OverflowError):
        said = f"The {what} needs more memory than there is: ask for fewer tokens or frames."
        return {"error": said, "foreseen": True}
    traceback.print_exc()
    said = "The run failed inside the solver: change its parameters."
    return {"error": said if run else "No answer: this failed inside.", "foreseen": False}


def _free(out: BinaryIO, most: int) -> None:
    """End a job; a process that holds more than `most` bytes first lets go of what it compiled."""
    if _memory() > most:
        jax.clear_caches()
        gc.collect()
        # Freed pages stay with the process unless the C library is asked for them.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    _send(out, pack({"kind": "free", "memory": _memory()}))


def _memory() -> int:
    """Bytes this process holds; where the system does not tell, the most it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def _send(out: BinaryIO, packet: bytes) -> None:
    out.write(framed(packet))
    out.flush()


if __name__ == "__main__":
    main()
