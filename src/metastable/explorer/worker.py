"""The process that computes: one line of JSON in, packets out, run after run.

It writes to a pipe. A full pipe stops it, so that a slow reader slows the computation and memory
stays where it is. SIGINT ends a run and keeps it; SIGUSR1 drops it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from metastable.explorer.keep import complete, store, verdicts
from metastable.explorer.limits import spec_for_page
from metastable.explorer.live import Live
from metastable.explorer.packet import framed, pack
from metastable.explorer.scene import Scene
from metastable.explorer.theory import DEGREES, predict_experiment, view_of
from metastable.spec import Experiment

__all__ = ["main"]


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
    _send(out, pack({"kind": "ready"}))
    for line in sys.stdin:
        signals.clear()
        try:
            job = json.loads(line)
        except ValueError:
            # A signal for the run before can cut the line short: the page is told to ask again.
            _send(out, pack({"kind": "error", "error": "The request was lost: start again."}))
            _send(out, pack({"kind": "free"}))
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
                _send(out, pack({"kind": "error", "error": _sentence(error)}))
        _send(out, pack({"kind": "free"}))


def _serve(job: dict[str, Any], out: BinaryIO, signals: Signals) -> None:
    if "folder" in job:
        return _run(job, out, signals)
    signals.at_once = True
    if "complete" in job:
        complete(Path(job["complete"]))
    else:
        _compile(job["compile"])
    signals.at_once = False


def _run(job: dict[str, Any], out: BinaryIO, signals: Signals) -> None:
    """One run: head, frames, end; all of it also on tape."""
    started = datetime.now(UTC)
    folder = Path(job["folder"])
    experiment = Experiment.model_validate(job["spec"])
    live = Live(experiment, log_clock=job["clock"] == "log", stopped=lambda: signals.stop)
    prediction = predict_experiment(experiment)
    head = {
        "kind": "head",
        "spec": spec_for_page(experiment),
        "prediction": prediction,
        "clock": live.field.clock,
        "view": view_of(live.start),
        "dim": live.start.dim,
        "axis_label": "time t",
        "play_clock": job["clock"],
        "title": experiment.name,
    }
    scene = Scene(live.field, degrees=min(len(prediction.get("rates") or range(8)), DEGREES))
    with (folder / "run.msr").open("wb") as tape:

        def emit(packet: bytes) -> None:
            tape.write(framed(packet))
            _send(out, packet)
            if signals.drop:
                raise Dropped

        emit(pack(head))
        moments = live.moments()
        emit(scene.packet(next(moments)))
        held = None  # one frame back, since the last one is looked at whatever it costs
        for moment in moments:
            scene.sum = live.sum
            if held is not None:
                emit(scene.packet(held))
            held = moment
        if signals.drop:
            raise Dropped
        if held is not None:
            emit(scene.packet(held, full=True))
        assert live.run is not None
        store(folder / "result", experiment, live.run, started)
        _send(out, pack({"kind": "judging"}))
        signals.at_once = True
        rows, note = verdicts(live.run)
        signals.at_once = False
        outcome = {"name": live.run.outcome.name, "message": live.run.outcome.message}
        emit(pack({"kind": "end", "outcome": outcome, "verdicts": rows, "note": note}))


def _compile(spec: dict[str, Any]) -> None:
    """Run an experiment as far as its first motion: what had to be compiled stays compiled."""
    live = Live(Experiment.model_validate(spec))
    scene = Scene(live.field)
    for _, moment in zip(range(2), live.moments(), strict=False):
        scene.sum = live.sum
        scene.packet(moment, full=True)


def _sentence(error: Exception) -> str:
    """An error for the one who watches; what was not foreseen goes to the server's log."""
    if isinstance(error, ValueError):
        return " ".join(str(error).split("\n---")[0].split())
    if isinstance(error, MemoryError):
        return "The run needs more memory than there is: ask for fewer tokens or frames."
    traceback.print_exc()
    return "The run failed inside the solver: change its parameters."


def _send(out: BinaryIO, packet: bytes) -> None:
    out.write(framed(packet))
    out.flush()


if __name__ == "__main__":
    main()
