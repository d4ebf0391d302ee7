"""One page at the WebSocket: what it asks for, and the frames it has room for."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from metastable.explorer.limits import Limits, Refused, read_experiment
from metastable.explorer.pool import Busy, Pool, Worker
from metastable.explorer.shelf import Shelf, Shelved

CREDIT = 4  # frames in flight
PATIENCE = 900.0  # seconds a run may wait for its page: paused tabs must not hold every worker


class Bucket:
    """An allowance of at most `most`, full at first, that refills at `rate` a second."""

    def __init__(self, most: float, rate: float):
        self.most, self.rate = most, rate
        self.left, self.refilled = most, time.monotonic()

    def spend(self) -> bool:
        """Take one, if there is one left."""
        now = time.monotonic()
        self.left = min(self.most, self.left + self.rate * (now - self.refilled))
        self.refilled = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Session:
    """Reads messages, and has at most one run going.

    A page whose messages are refused time and again (twice `limits.messages`, and then more than a
    tenth of that a second) is disconnected.

    The worker is asked for a frame only when fewer than `CREDIT` are unanswered and the page has
    not paused: a page that stops answering stops the computation. After "stop" the frames on their
    way are left out; "finished" still comes.
    """

    def __init__(self, socket: WebSocket, pool: Pool, shelf: Shelf, limits: Limits):
        self.socket, self.pool, self.shelf, self.limits = socket, pool, shelf, limits
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
                    await self._say({"type": "error", "error": str(refused)})
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
        elif kind in ("pause", "resume"):
            async with self.room:
                self.paused = kind == "pause"
                self.room.notify_all()
        elif kind == "stop":
            async with self.room:
                self.stopped = True
                self.room.notify_all()
            if self.worker is not None:
                self.worker.tell(signal.SIGINT)
        else:
            raise Refused(
                "type must be start, ack, pause, resume or stop; got "
                f"{json.dumps(kind)[:40] if isinstance(kind, str) else type(kind).__name__}."
            )

    async def _run(self, job: dict[str, Any]) -> None:
        """From start to end: ask for a worker, and pass its frames on."""
        run = self.shelf.new()
        try:
            try:
                self.worker = worker = await self.pool.take()
            except Busy as busy:
                await self._say({"type": "error", "error": str(busy)})
                return
            free = False
            try:
                await worker.begin(job | {"folder": str(run.folder)})
                free = await self._pass_on(worker, run)
            except (EOFError, ConnectionError):
                await self._say({"type": "error", "error": "The computation ended unexpectedly."})
            except TimeoutError:
                await self._say({"type": "error", "error": "Paused too long: start the run again."})
            finally:
                self.worker = None
                self.pool.give_back(worker, free=free)
        except (WebSocketDisconnect, RuntimeError):
            return  # the page has gone; `serve` hears of it too
        finally:
            if not run.ended:
                self.shelf.drop(run.name)
            self.shelf.tidy()

    async def _pass_on(self, worker: Worker, run: Shelved) -> bool:
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
                told = {key: header[key] for key in header if key not in ("arrays", "kind")}
                await self._say({"type": "started", "run_id": run.name, **told})
            elif kind == "judging":
                await self._say({"type": "judging"})
            elif kind == "end":
                run.ended = True
                told = {key: header[key] for key in ("outcome", "verdicts", "note")}
                await self._say({"type": "finished", "run_id": run.name, **told})
            elif kind == "error":
                await self._say({"type": "error", "error": header["error"]})
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


def _read(message: Any, most: int) -> dict[str, Any]:
    text = message.get("text")
    if text is None:
        raise Refused("messages must be JSON text; got bytes.")
    if len(text) > most:
        raise Refused(f"messages must hold at most {most} characters; got {len(text)}.")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("messages must be JSON objects; got something else.") from None
    if not isinstance(tree, dict):
        raise Refused(f"messages must be JSON objects; got {type(tree).__name__}.")
    return tree


def _job(message: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """What the worker is told, from a start message."""
    experiment = read_experiment(with_choices(message), limits)
    clock = message.get("clock", "linear")
    if clock not in ("linear", "log"):
        raise Refused('clock must be "linear" or "log".')
    return {"spec": experiment.model_dump(mode="json"), "clock": clock}


def with_choices(message: dict[str, Any]) -> Any:
    """The spec of a message, with its `frames` and `merge` written into it."""
    spec, frames, merge = message.get("spec"), message.get("frames"), message.get("merge")
    if not isinstance(spec, dict):
        return spec
    flow = spec.get("flow", {})
    if not isinstance(flow, dict):
        return spec
    if frames is not None:
        flow = flow | {"frames": frames}
    if merge is True and flow.get("stepper") is None:
        flow = flow | {"stepper": {"kind": "merging"}}
    return spec | {"flow": flow}
