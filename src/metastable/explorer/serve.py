"""From an address to a running server."""

from __future__ import annotations

import dataclasses
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import uvicorn

from metastable.explorer.app import create_app
from metastable.explorer.connection import PromptConnection
from metastable.explorer.guard import hosts_of, is_loopback
from metastable.explorer.limits import Limits


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
    if not 0 <= port < 65536:
        raise ValueError(f"--port must lie between 0 and 65535; got {port}.")
    if not 1 <= runs <= 64:
        raise ValueError(f"--runs must lie between 1 and 64; got {runs}.")
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
    server = uvicorn.Server(config)
    say(url)
    if browser and sys.stdout.isatty():
        webbrowser.open(url)
    server.run(sockets=[listening])


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
