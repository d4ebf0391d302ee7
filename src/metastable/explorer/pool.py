"""The processes that compute, as the server sees them: started, lent, watched, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from metastable.explorer.packet import header_of

GRACE = 5.0  # seconds for a dropped run to let go before its process is ended
SERVED = 1000  # jobs after which a process is replaced
HELD = 2**30  # bytes after a job, and after it has let go of what it compiled; above, the same
MOST = 256 * 2**20  # bytes of one packet


class Busy(Exception):
    """All places are taken."""


class Late(Exception):
    """An answer took longer than allowed; the process that sought it was ended."""


class Lost(Exception):
    """The process ended before it answered."""


class Worker:
    """One process of `worker.main`, at most one run at a time."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process = process
        self.served = 0
        self.killed = False
        self.memory = 0  # bytes it held after its last job

    @classmethod
    async def launch(cls, cache: Path, name: str) -> Worker:
        """A new process, whose first packet says that it can compute.

        `name` shows in lists of processes; what it compiles is kept in the folder `cache`.
        """
        environment = {
            **os.environ,
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
            "TF_CPP_MIN_LOG_LEVEL": "3",  # it complains of code it has itself compiled and cached
        }
        words = sys.executable, "-m", "metastable.explorer.worker", name
        pipes = dict.fromkeys(("stdin", "stdout"), asyncio.subprocess.PIPE)
        # Ctrl-C belongs to the server, which tells its workers.
        how: dict[str, Any] = {"limit": 2**16, "env": environment, "start_new_session": True}
        return cls(await asyncio.create_subprocess_exec(*words, **pipes, **how))

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
        header = header_of(packet)
        if header["kind"] == "free":
            self.memory = header["memory"]
        return header, packet

    async def rest(self) -> tuple[dict[str, Any], bytes] | None:
        """The last packet of the job, once the process is free."""
        answer = None
        while (received := await self.receive())[0]["kind"] != "free":
            answer = received
        return answer

    def tell(self, what: signal.Signals) -> None:
        if self.alive and not self.killed:  # the dead would be waited for twice
            self.process.send_signal(what)

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    @property
    def tired(self) -> bool:
        """Whether a fresh process should take its place."""
        return self.served >= SERVED or self.memory > HELD

    async def end(self) -> None:
        self.tell(signal.SIGKILL)
        self.killed = True
        await self.process.wait()


class Pool:
    """At most `most` workers; one is kept warm while nobody needs it.

    - A worker that comes back in the middle of a job is told to drop it; one that does not let go
      within `GRACE` seconds is ended.
    - A worker that has served or holds too much is ended when it comes back.
    - `first`: the jobs that `warm` lets a worker do.
    - `reluctance`: seconds to wait for a busy worker before another is started, which takes
      seconds itself; `excuse`: what is said when all stay busy.
    """

    def __init__(
        self,
        most: int,
        cache: Path,
        *,
        name: str = "run",
        first: tuple[dict[str, Any], ...] = (),
        reluctance: float = 0.0,
        excuse: str = "The server is busy: ask again.",
    ):
        self.most, self.cache, self.name, self.first = most, cache, name, first
        self.reluctance, self.excuse = reluctance, excuse
        self.workers: set[Worker] = set()  # every process that lives
        self.idle: list[Worker] = []
        self.busy = 0  # lent, starting, or letting go
        self.soon = 0  # of those, about to be idle
        self.changed = asyncio.Condition()
        self.tasks: set[asyncio.Task[None]] = set()
        self.closing = False

    async def warm(self) -> None:
        """Have one worker ready that has done the first jobs, and so compiled what they need.

        Whoever asks for a worker in the meantime waits for this one.
        """
        self.soon += 1
        try:
            worker = await self._start()
            free = False
            try:
                for job in self.first:
                    await worker.begin(job)
                    await worker.rest()
                free = True
            finally:
                self.give_back(worker, free=free)
        finally:
            self.soon -= 1
            self._tell()

    async def ask(self, job: dict[str, Any], seconds: float | None) -> tuple[dict[str, Any], bytes]:
        """The answer to one job, header and packet, or `Busy`, `Late` or `Lost`.

        In each case, and when the caller is cancelled, the worker's place is free again.
        """
        worker = await self.take()
        answer, free = None, False
        try:
            async with asyncio.timeout(seconds):
                await worker.begin(job)
                answer = await worker.rest()
            free = True
        except TimeoutError:
            await worker.end()
            message = f"No answer within {seconds:g} seconds: ask for something smaller."
            raise Late(message) from None
        except (EOFError, ConnectionError):
            raise Lost("The computation ended unexpectedly: ask again.") from None
        finally:
            self.give_back(worker, free=free)
        if answer is None:
            raise Lost("The computation gave no answer: ask again.")
        return answer

    async def take(self, patience: float = 60.0) -> Worker:
        """A worker that is ready for a run; `Busy` when none becomes free in time.

        One that is about to be free is worth waiting for: starting another takes seconds.
        """
        ready = lambda: self.idle or (self.busy < self.most and not self.soon)
        async with self.changed:
            if self.busy and self.reluctance:
                with suppress(TimeoutError):
                    somebody = self.changed.wait_for(lambda: bool(self.idle) or not self.busy)
                    await asyncio.wait_for(somebody, self.reluctance)
            try:
                await asyncio.wait_for(self.changed.wait_for(ready), patience)
            except TimeoutError:
                raise Busy(self.excuse) from None
            while self.idle:
                worker = self.idle.pop()
                if worker.alive:
                    self.busy += 1
                    return worker
                self.workers.discard(worker)
            starting = self._start()
        return await starting

    def give_back(self, worker: Worker, *, free: bool) -> None:
        """Take a worker back; unless it is `free`, its run is dropped first, in the background."""
        self.soon += 1
        self._later(self._recover(worker, free))

    def _start(self) -> Coroutine[Any, Any, Worker]:
        """A new worker; a start that nobody waits for any more still ends among the idle."""
        self.busy += 1
        starting = asyncio.ensure_future(self._launch())

        async def started() -> Worker:
            try:
                return await asyncio.shield(starting)
            except asyncio.CancelledError:
                self._later(self._adopt(starting))
                raise
            except BaseException as error:
                self._leave()
                if isinstance(error, EOFError | OSError):
                    raise Busy("No process could be started to compute: ask again.") from None
                raise

        return started()

    async def _launch(self) -> Worker:
        worker = await Worker.launch(self.cache, self.name)
        self.workers.add(worker)
        try:
            if self.closing:
                raise EOFError
            await worker.receive()
        except BaseException:
            await self._end(worker)
            raise
        return worker

    async def _adopt(self, starting: asyncio.Future[Worker]) -> None:
        try:
            worker = await starting
        except (OSError, EOFError):
            return self._leave()
        self.give_back(worker, free=True)

    async def _recover(self, worker: Worker, free: bool) -> None:
        try:
            if not free:
                worker.tell(signal.SIGUSR1)
                async with asyncio.timeout(GRACE):
                    await worker.rest()
            if worker.alive and not (worker.tired or self.idle or self.closing):
                self.idle.append(worker)
            else:
                await self._end(worker)
        except (TimeoutError, EOFError, ConnectionError):
            await self._end(worker)
        finally:
            self.soon -= 1
            self._leave()

    async def _end(self, worker: Worker) -> None:
        await worker.end()
        self.workers.discard(worker)

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
        """End every process at once; jobs still going are lost."""
        self.closing = True
        while self.workers or self.tasks:
            for worker in list(self.workers):
                await self._end(worker)
            if self.tasks:
                await asyncio.wait(list(self.tasks), timeout=0.1)
