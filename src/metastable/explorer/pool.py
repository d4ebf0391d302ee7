"""The processes that compute, as the server sees them: started, lent, watched, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from metastable.explorer.packet import header_of

__all__ = ["Busy", "Pool", "Worker"]

GRACE = 5.0  # seconds for a dropped run to let go before its process is ended
SERVED = 100  # runs after which a process is replaced, and with it all it has compiled
MOST = 256 * 2**20  # bytes of one packet


class Busy(Exception):
    """All places are taken."""


class Worker:
    """One process of `worker.main`, at most one run at a time."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process = process
        self.served = 0

    @classmethod
    async def start(cls, cache: Path) -> Worker:
        """A new process, once it has loaded what runs need; code compiled before is in `cache`."""
        environment = {
            **os.environ,
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
            "TF_CPP_MIN_LOG_LEVEL": "3",  # it complains of code it has itself compiled and cached
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "metastable.explorer.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**16,
            env=environment,
            start_new_session=True,  # Ctrl-C belongs to the server, which tells its workers
        )
        worker = cls(process)
        try:
            await worker.receive()
        except BaseException:
            await worker.end()
            raise
        return worker

    async def begin(self, job: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.served += 1
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        await self.process.stdin.drain()

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next packet; while nobody asks, the process waits at its full pipe."""
        assert self.process.stdout is not None
        (length,) = struct.unpack("<I", await self.process.stdout.readexactly(4))
        if length > MOST:
            raise ConnectionError("a packet of impossible length")
        packet = await self.process.stdout.readexactly(length)
        return header_of(packet), packet

    def tell(self, what: signal.Signals) -> None:
        if self.alive:
            self.process.send_signal(what)

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    async def end(self) -> None:
        if self.alive:
            self.process.kill()
        await self.process.wait()


class Pool:
    """At most `most` workers; one is kept warm while nobody needs it.

    A worker that comes back in the middle of a run is told to drop it; one that does not let go
    within `GRACE` seconds is ended.
    """

    def __init__(self, most: int, cache: Path):
        self.most, self.cache = most, cache
        self.idle: list[Worker] = []
        self.busy = 0  # lent, starting, or letting go
        self.soon = 0  # of those, about to be idle
        self.changed = asyncio.Condition()
        self.tasks: set[asyncio.Task[None]] = set()
        self.closing = False

    async def warm(self, spec: dict[str, Any]) -> None:
        """Have one worker ready that has compiled what an experiment needs.

        Whoever asks for a worker in the meantime waits for this one.
        """
        self.soon += 1
        try:
            worker = await self._start()
            free = False
            try:
                await worker.begin({"compile": spec})
                while (await worker.receive())[0]["kind"] != "free":
                    pass
                free = True
            finally:
                self.give_back(worker, free=free)
        finally:
            self.soon -= 1
            self._tell()

    async def take(self, patience: float = 60.0) -> Worker:
        """A worker that is ready for a run; `Busy` when none becomes free in time.

        One that is about to be free is worth waiting for: starting another takes seconds.
        """
        ready = lambda: self.idle or (self.busy < self.most and not self.soon)
        async with self.changed:
            try:
                await asyncio.wait_for(self.changed.wait_for(ready), patience)
            except TimeoutError:
                raise Busy(
                    f"{self.most} runs are computed already: wait for one to end, or start the "
                    "server with more --runs."
                ) from None
            while self.idle:
                worker = self.idle.pop()
                if worker.alive:
                    self.busy += 1
                    return worker
            starting = self._start()
        return await starting

    def give_back(self, worker: Worker, *, free: bool) -> None:
        """Take a worker back; unless it is `free`, its run is dropped first, in the background."""
        self.soon += 1
        self._later(self._recover(worker, free))

    def _start(self) -> Coroutine[Any, Any, Worker]:
        """A new worker; a start that nobody waits for any more still ends among the idle."""
        self.busy += 1
        starting = asyncio.ensure_future(Worker.start(self.cache))

        async def started() -> Worker:
            try:
                return await asyncio.shield(starting)
            except asyncio.CancelledError:
                self._later(self._adopt(starting))
                raise
            except BaseException:
                self._leave()
                raise

        return started()

    async def _adopt(self, starting: asyncio.Future[Worker]) -> None:
        try:
            worker = await starting
        except (OSError, EOFError, ConnectionError):
            return self._leave()
        self.give_back(worker, free=True)

    async def _recover(self, worker: Worker, free: bool) -> None:
        try:
            if not free:
                worker.tell(signal.SIGUSR1)
                async with asyncio.timeout(GRACE):
                    while (await worker.receive())[0]["kind"] != "free":
                        pass
            if worker.alive and worker.served < SERVED and not self.idle and not self.closing:
                self.idle.append(worker)
            else:
                await worker.end()
        except (TimeoutError, EOFError, ConnectionError):
            await worker.end()
        finally:
            self.soon -= 1
            self._leave()

    def _leave(self) -> None:
        self.busy -= 1
        self._tell()

    def _tell(self) -> None:
        async def tell() -> None:
            async with self.changed:
                self.changed.notify_all()

        self._later(tell())

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def close(self) -> None:
        """End every process; runs still going are dropped."""
        self.closing = True
        while self.tasks:
            await asyncio.wait(list(self.tasks))
        while self.idle:
            await self.idle.pop().end()
