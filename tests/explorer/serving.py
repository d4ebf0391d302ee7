"""Real servers for tests, in a thread or in a process of their own, and a client for them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvicorn
from websockets.sync.client import ClientConnection, connect

from metastable.explorer.app import create_app
from metastable.explorer.guard import hosts_of
from metastable.explorer.limits import Limits
from metastable.explorer.packet import unpack
from metastable.explorer.serve import PromptConnection


class Client:
    """Talks to the server at `host`."""

    host: str

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://{self.host}", timeout=120)

    def socket(self, **options: Any) -> ClientConnection:
        return connect(
            f"ws://{self.host}/api/live",
            max_size=None,
            open_timeout=60,
            ping_interval=None,  # a machine under load may be silent for long
            **options,
        )


class Inside(Client):
    """A server in a thread of this process, so that its tasks can be counted."""

    def __init__(self, folder: Path | None = None, **limits: Any):
        # On a busy machine even a short answer may take long.
        limits = {"thinking": 120.0} | limits
        self.app = create_app(folder, limits=Limits(**limits), hosts=hosts_of("127.0.0.1"))
        self.desk = self.app.app.state.desk
        self.desk._warm = lambda: asyncio.sleep(0)  # no worker before it is needed
        config = uvicorn.Config(
            self.app,
            port=0,
            log_level="warning",
            ws_max_size=2_000_000,
            http=PromptConnection,
        )
        self.server = uvicorn.Server(config)
        self.loop: asyncio.AbstractEventLoop
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        until(lambda: self.server.started)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.host = f"127.0.0.1:{port}"

    def _serve(self) -> None:
        async def serve() -> None:
            self.loop = asyncio.get_running_loop()
            await self.server.serve()

        asyncio.run(serve())

    @property
    def tasks(self) -> int:
        return len(asyncio.all_tasks(self.loop))

    @property
    def workers(self) -> list[psutil.Process]:
        """Processes that compute runs."""
        return processes("run")

    @property
    def thinkers(self) -> list[psutil.Process]:
        """Processes that answer questions."""
        return processes("think")

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


def processes(name: str, parent: int | None = None) -> list[psutil.Process]:
    """Children that run `metastable.explorer.worker` for that purpose."""
    found = []
    for child in psutil.Process(parent).children(recursive=True):
        try:
            if child.cmdline()[-2:] == ["metastable.explorer.worker", name]:
                found.append(child)
        except psutil.Error:
            pass  # it has just ended
    return found


class Served(Client):
    """`metastable explore` in a process of its own."""

    def __init__(self, folder: Path, *options: str):
        self.errors = folder / "stderr.txt"
        words = ["-m", "metastable.cli", "explore", *options, "--port", "0", "--json"]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *words, "--no-browser"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "TMPDIR": str(folder)},
            )
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.host = self.url.split("/")[2]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def say(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def hear(socket: ClientConnection, timeout: float = 120) -> tuple[dict[str, Any], dict[str, Any]]:
    """The next message: its header and, of a frame, its arrays."""
    message = socket.recv(timeout)
    return unpack(message) if isinstance(message, bytes) else (json.loads(message), {})


def watch(
    socket: ClientConnection, spec: Any, heard: Any = lambda: None, **choices: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Run an experiment to its end: all frames, and the last message."""
    say(socket, type="start", spec=spec, **choices)
    frames = []
    while True:
        header, arrays = hear(socket)
        if header.get("kind") == "frame":
            frames.append((header, arrays))
            heard()
            say(socket, type="ack", index=header["index"])
        elif header["type"] in ("finished", "error"):
            return frames, header


def until(condition: Any, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return found
