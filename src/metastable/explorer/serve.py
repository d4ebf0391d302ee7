"""From an address to a running server, whose connections must send a whole request in time."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from metastable.explorer.app import create_app
from metastable.explorer.guard import hosts_of, is_loopback
from metastable.explorer.limits import Limits

SECONDS = 10.0  # for a whole request, from the moment the connection is open or free again
WAITING = 128  # connections without a whole request; the oldest is closed to make room


class PromptConnection(H11Protocol):
    """uvicorn's connection, closed when no whole request arrives within `SECONDS`.

    uvicorn has no such limit, and counts half-open connections among those it refuses others for.
    Side effect of a new connection: beyond `WAITING` the one that has waited longest is closed.
    """

    since = 0.0
    alarm: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        """Whether the client still owes (the rest of) a request."""
        own = self.transport.get_protocol() is self  # else it has become a WebSocket
        owed = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        return owed and own and not self.transport.is_closing()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()
        others = [c for c in self.connections if isinstance(c, PromptConnection) and c.waiting]
        if len(others) > WAITING:
            min(others, key=lambda connection: connection.since).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if not self.waiting:
            self._rest()
        elif self.alarm is None:
            self.since = time.monotonic()
            self.alarm = self.loop.call_later(SECONDS, self._close)

    def _rest(self) -> None:
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None

    def _close(self) -> None:
        self.alarm = None
        if self.waiting:
            self.transport.abort()


def serve(
    folder: Path | None,
    host: str,
    port: int,
    *,
    token: str | None,
    runs: int,
    browser: bool,
    say: Callable[[str], None],
) -> None:
    """Serve until interrupted; `say` hears the address once the server listens."""
    for option, value, least, most in (("port", port, 0, 65535), ("runs", runs, 1, 64)):
        if not least <= value <= most:
            raise ValueError(f"--{option} must lie between {least} and {most}; got {value}.")
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    if token is not None and (len(token) < 16 or quote(token, safe="-._~") != token):
        raise ValueError("--token must be 16 or more letters, digits, '-', '.', '_' or '~'.")
    limits = dataclasses.replace(Limits(), runs=runs)
    app = create_app(folder, limits=limits, hosts=hosts_of(host), token=token)
    listening = _listen(host, port)
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    shown = f"[{shown}]" if ":" in shown else shown
    url = f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws_max_size=limits.message,
        ws_max_queue=64,
        limit_concurrency=4 * limits.connections,
        timeout_graceful_shutdown=1,
        http=PromptConnection,
        proxy_headers=False,
        server_header=False,
    )
    say(url)
    if browser and sys.stdout.isatty():
        webbrowser.open(url)
    uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise ValueError(
            f"--host {host} --port {port} cannot be listened on ({error}): choose another, or "
            "--port 0."
        ) from None
    listening.set_inheritable(False)
    return listening
