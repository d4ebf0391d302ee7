"""One page at the WebSocket: what it asks for, the frames it has room for, and the kept runs."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from metastable.explorer.guard import Bucket
from metastable.explorer.limits import Limits, Refused, read_experiment, read_object
from metastable.explorer.pool import Busy, Pool, Worker

CREDIT = 4  # frames in flight
PATIENCE = 900.0  # seconds a run may wait for its page: paused tabs must not hold every worker


@dataclass
class KeptRun:
    """One run on disk: its folder with the recording and the result; complete once `ended`."""

    name: str
    folder: Path
    ended: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # of whoever adds to the folder

    @property
    def recording(self) -> Path:
        return self.folder / "run.msr"

    @property
    def result(self) -> Path:
        return self.folder / "result"


class KeptRuns:
    """At most `most` runs of this session, the oldest dropped first; names cannot be guessed."""

    def __init__(self, most: int = 8):
        self.root: Path  # known once the server runs
        self.most = most
        self.runs: dict[str, KeptRun] = {}

    def new(self) -> KeptRun:
        name = secrets.token_urlsafe(12)
        folder = self.root / name
        folder.mkdir()
        self.runs[name] = KeptRun(name, folder)
        return self.runs[name]

    def tidy(self) -> None:
        """Forget the oldest runs beyond the most."""
        while len(self.runs) > self.most:
            self.drop(next(iter(self.runs)))

    def drop(self, name: str) -> None:
        if name in self.runs:
            shutil.rmtree(self.runs.pop(name).folder, ignore_errors=True)

    def find(self, name: str) -> KeptRun:
        """A finished run, by name."""
        run = self.runs.get(name)
        if run is None:
            raise Refused("This run is not kept any more: start it again.")
        if not run.ended:
            raise Refused("This run has not ended yet: wait for it, or stop it.")
        return run


class Session:
    """Reads messages, and has at most one run going.

    A page whose messages are refused time and again (twice `limits.messages`, and then more than a
    tenth of that a second) is disconnected.

    The worker is asked for a frame only when fewer than `CREDIT` are unanswered and the page has
    not paused: a page that stops answering stops the computation. After "stop" the frames on their
    way are left out; "finished" still comes.
    """

    def __init__(self, socket: WebSocket, pool: Pool, kept: KeptRuns, limits: Limits):
        self.socket, self.pool, self.kept, self.limits = socket, pool, kept, limits
        self.flight = 0
        self.paused = self.stopped = False
        self.room = asyncio.Condition()
        self.running: asyncio.Task[None] | None = None
        self.worker: Worker | None = None
        self.allowed = Bucket(2.0 * limits.messages, limits.messages)
        self.forgiven = Bucket(2.0 * limits.messages, 0.1 * limits.messages)

    async def serve(self) -> None:
        try:
            while True:
                message = await self.socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                try:
                    if not self.allowed.spend():
                        most = self.limits.messages
                        raise Refused(f"at most {most} messages a second are read; slow down.")
                    await self._heed(_read(message, self.limits.message))
                except Refused as refused:
                    if not self.forgiven.spend():
                        return await self.socket.close(1008, "too many refused messages")
                    await self._say_error(str(refused))
        except (WebSocketDisconnect, RuntimeError):
            return
        finally:
            await self._cancel()

    async def _heed(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "start":
            await self._cancel()
            self.flight, self.paused, self.stopped = 0, False, False
            job = _job(message, self.limits)
            self.running = asyncio.create_task(self._run(job))
        elif kind == "ack":
            async with self.room:
                if self.flight > 0:
                    self.flight -= 1
                    self.allowed.left += 1  # an answer that was asked for does not count
                self.room.notify_all()
        elif kind in ("pause", "resume", "stop"):
            async with self.room:
                if kind == "stop":
                    self.stopped = True
                else:
                    self.paused = kind == "pause"
                self.room.notify_all()
            if kind == "stop" and self.worker is not None:
                self.worker.tell(signal.SIGINT)
        else:
            raise Refused(
                "type must be start, ack, pause, resume or stop; got "
                f"{json.dumps(kind)[:40] if isinstance(kind, str) else type(kind).__name__}."
            )

    async def _run(self, job: dict[str, Any]) -> None:
        """From start to end: ask for a worker, and pass its frames on."""
        run = self.kept.new()
        try:
            try:
                self.worker = worker = await self.pool.take()
            except Busy as busy:
                return await self._say_error(str(busy))
            free = False
            try:
                await worker.begin(job | {"folder": str(run.folder)})
                free = await self._pass_on(worker, run)
            except (EOFError, ConnectionError):
                await self._say_error("The computation ended unexpectedly.")
            except TimeoutError:
                await self._say_error("Paused too long: start the run again.")
            finally:
                self.worker = None
                self.pool.give_back(worker, free=free)
        except (WebSocketDisconnect, RuntimeError):
            return  # the page has gone; `serve` hears of it too
        finally:
            if not run.ended:
                self.kept.drop(run.name)
            self.kept.tidy()

    async def _pass_on(self, worker: Worker, run: KeptRun) -> bool:
        """Relay a run; True once the worker is free again."""
        while True:
            header, packet = await worker.receive()
            kind = header["kind"]
            if kind == "frame":
                async with self.room, asyncio.timeout(PATIENCE):
                    await self.room.wait_for(self._has_room)
                    self.flight += 1
                if self.stopped:
                    worker.tell(signal.SIGINT)  # again: the first may have come before the run
                else:
                    await self.socket.send_bytes(packet)
            elif kind == "head":
                content = {key: header[key] for key in header if key not in ("arrays", "kind")}
                await self._say({"type": "started", "run_id": run.name, **content})
            elif kind == "judging":
                await self._say({"type": "judging"})
            elif kind == "end":
                run.ended = True
                content = {key: header[key] for key in ("outcome", "verdicts", "note")}
                await self._say({"type": "finished", "run_id": run.name, **content})
            elif kind == "error":
                await self._say_error(header["error"])
            elif kind == "free":
                return True

    def _has_room(self) -> bool:
        return self.stopped or (self.flight < CREDIT and not self.paused)

    async def _cancel(self) -> None:
        task, self.running = self.running, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def _say(self, message: dict[str, Any]) -> None:
        if self.socket.application_state is WebSocketState.CONNECTED:
            await self.socket.send_text(json.dumps(message, allow_nan=False))

    async def _say_error(self, error: str) -> None:
        await self._say({"type": "error", "error": error})


def _read(message: Any, most: int) -> dict[str, Any]:
    text = message.get("text")
    if text is None:
        raise Refused("messages must be JSON text; got bytes.")
    if len(text) > most:
        raise Refused(f"messages must hold at most {most} characters; got {len(text)}.")
    return read_object(text, "messages must be JSON objects")


def _job(message: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """What the worker is asked, from a start message: its `frames` and `merge` go into the spec."""
    spec, frames = message.get("spec"), message.get("frames")
    flow = spec.get("flow", {}) if isinstance(spec, dict) else None
    if isinstance(spec, dict) and isinstance(flow, dict):
        flow = flow if frames is None else flow | {"frames": frames}
        if message.get("merge") is True and flow.get("stepper") is None:
            flow = flow | {"stepper": {"kind": "merging"}}
        spec = spec | {"flow": flow}
    experiment = read_experiment(spec, limits)
    clock = message.get("clock", "linear")
    if clock not in ("linear", "log"):
        raise Refused('clock must be "linear" or "log".')
    return {"spec": experiment.model_dump(mode="json"), "clock": clock}
