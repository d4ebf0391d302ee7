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
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from metastable.core.numerics import jax
from metastable.explorer.folder import Folder
from metastable.explorer.live import complete, live, store, verdicts
from metastable.explorer.packet import framed, pack
from metastable.explorer.recording import end_packet, first_frame, head_of
from metastable.explorer.scene import Scene
from metastable.explorer.standalone import standalone_page
from metastable.explorer.theory import DEGREES, predict_experiment
from metastable.fields.sums import Dense
from metastable.flows.spec import Experiment

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
            if "folder" in job:
                _run(job, out, signals)
            else:
                signals.at_once = True
                packet = answer(job)
                signals.at_once = False
                _send(out, packet)
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


def _run(job: dict[str, Any], out: BinaryIO, signals: Signals) -> None:
    """One run: head, frames, end; all of it also on tape."""
    started = datetime.now(UTC)
    folder = Path(job["folder"])
    experiment = Experiment.model_validate(job["spec"])
    run = live(experiment, log_clock=job["clock"] == "log", stopped=lambda: signals.stop)
    head = head_of(experiment, run.start, run.field.clock or "none", job["clock"], experiment.name)
    degrees = min(len(head["prediction"].get("rates") or range(8)), DEGREES)
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
        emit(end_packet(result.outcome, rows, note))


def answer(job: dict[str, Any]) -> bytes:
    """The packet that answers a job: {"think": name of the question, and its arguments}.

    Its kind is "answer", with the result under that key; that of "place" is a frame. Questions
    with a `file` write their result there. `spec` and `root` stand for an experiment and a folder.
    """
    arguments = {key: value for key, value in job.items() if key not in ("think", "spec", "root")}
    subject = [Experiment.model_validate(job["spec"])] if "spec" in job else []
    subject += [Folder(job["root"])] if "root" in job else []
    result = _QUESTIONS[job["think"]](*subject, **arguments)
    return result if isinstance(result, bytes) else pack({"kind": "answer", "answer": result})


def _compile(experiment: Experiment) -> None:
    """Run an experiment as far as its first motion: what had to be compiled stays compiled."""
    run = live(experiment)
    scene = Scene(run.field, run.sum or Dense())
    for _, frame in zip(range(2), run, strict=False):
        scene.packet(frame, full=True)


def _recording(folder: Folder, name: str, file: str) -> None:
    Path(file).write_bytes(folder.recording(name))


def _zip(result: str, file: str) -> None:
    """Complete a result folder and pack it; what it holds is compressed already."""
    folder, part = Path(result), Path(file).with_suffix(".part")
    complete(folder)
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, Path("run") / path.relative_to(folder))
    part.replace(file)


def _html(recording: str, file: str) -> None:
    part = Path(file).with_suffix(".part")
    part.write_text(standalone_page(Path(recording)), encoding="utf-8")
    part.replace(file)


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "predict": predict_experiment,
    "place": first_frame,
    "compile": _compile,
    "list": Folder.list,
    "recording": _recording,
    "sweep": Folder.sweep,
    "cell": Folder.cell,
    "zip": _zip,
    "html": _html,
}


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
