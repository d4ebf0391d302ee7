"""A real server for tests: `metastable explore` in a process of its own, and a client for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
from websockets.sync.client import ClientConnection, connect

from metastable.explorer.packet import unpack


class Served:
    """A running explorer; `log` is all it has printed to stderr."""

    def __init__(self, tmp: Path, *options: str):
        self.errors = tmp / "stderr.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "metastable.cli",
                    "explore",
                    *options,
                    "--port",
                    "0",
                    "--json",
                    "--no-browser",
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "TMPDIR": str(tmp)},
            )
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.host = self.url.split("/")[2]

    @property
    def log(self) -> str:
        return self.errors.read_text()

    @property
    def family(self) -> list[psutil.Process]:
        """The server and its workers."""
        server = psutil.Process(self.process.pid)
        return [server, *server.children(recursive=True)]

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://{self.host}", timeout=120)

    def socket(self, **options: Any) -> ClientConnection:
        return connect(f"ws://{self.host}/api/live", max_size=None, open_timeout=60, **options)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(15)
        finally:
            self.process.kill()
            self.process.wait()


def say(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def hear(socket: ClientConnection, timeout: float = 120) -> tuple[dict[str, Any], dict[str, Any]]:
    """The next message: its header and, of a frame, its arrays."""
    message = socket.recv(timeout)
    return unpack(message) if isinstance(message, bytes) else (json.loads(message), {})


def watch(socket: ClientConnection, spec: Any, **choices: Any) -> tuple[list[Any], dict[str, Any]]:
    """Run an experiment to its end: all frames, and the last message."""
    say(socket, type="start", spec=spec, **choices)
    frames = []
    while True:
        header, arrays = hear(socket)
        if header.get("kind") == "frame":
            frames.append((header, arrays))
            say(socket, type="ack", index=header["index"])
        elif header["type"] in ("finished", "error"):
            return frames, header
