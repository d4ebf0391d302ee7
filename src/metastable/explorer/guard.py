"""Who may talk to the server, and what the page may do: checked before anything else.

- Host: only names this server goes by, so that a foreign name that resolves to this machine
  (DNS rebinding) gets nothing.
- Origin: a page of another site may not open the WebSocket or post. Requests without Origin do not
  come from a page of another site.
- Token: on any address but loopback, in the query or in the cookie that the first page sets.
- Size of bodies, requests a second.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import re
import time
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

COOKIE = "metastable_token"
BODY = 4_000_000  # bytes of a request
RATE, BURST = 60.0, 240.0  # requests a second, and at once


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def hosts_of(host: str) -> set[str] | None:
    """Names by which the server may be addressed; None where they cannot be known."""
    if is_loopback(host):
        return {"127.0.0.1", "localhost", "[::1]", host}
    return None if host in ("0.0.0.0", "::") else {host}


def page_policy(html: str) -> str:
    """The Content-Security-Policy of the page: its own files, and its one import map by hash."""
    inline = import_map(html)
    digest = f" '{source_hash(inline)}'" if inline else ""
    return (
        f"default-src 'none'; script-src 'self'{digest}; style-src 'self'; img-src 'self' data: "
        "blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def import_map(html: str) -> str:
    """The text of a page's import map, if it has one."""
    match = re.search(r'<script type="importmap">(.*?)</script>', html, re.DOTALL)
    return match.group(1) if match else ""


def source_hash(text: str) -> str:
    """How a Content-Security-Policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
        enough = self.left >= 1
        self.left -= enough
        return enough


class Guard:
    """ASGI middleware that lets through what may pass, and adds the headers of safety."""

    def __init__(self, app: Any, *, hosts: set[str] | None, token: str | None):
        self.app, self.hosts, self.token = app, hosts, token
        self.allowed = Bucket(BURST, RATE)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        socket = scope["type"] == "websocket"
        if not socket and scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        status, reason = self._refusal(scope, headers)
        if reason and socket:
            await receive()
            return await send({"type": "websocket.close", "code": 1008, "reason": reason})
        if reason:
            return await _answer(send, status, reason)
        if socket:
            return await self.app(scope, receive, send)
        token = self.token if self._token_in_query(scope) else None
        answered = False

        async def sealed(message: Any) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                message["headers"] = [*message["headers"], *_seal(token)]
            await send(message)

        try:
            await self.app(scope, _bounded(receive), sealed)
        except asyncio.CancelledError:  # the server ends, and does not wait for long answers
            if not answered:
                await _answer(send, 503, "The server is closing.")

    def _refusal(self, scope: Any, headers: dict[str, str]) -> tuple[int, str]:
        host = headers.get("host", "")
        name = re.sub(r":\d*$", "", host).lower()  # without the port
        if self.hosts is not None and name not in self.hosts:
            return 421, "Host must be the address this server was started with."
        origin = headers.get("origin")
        guarded = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if guarded and origin is not None and _host_of(origin) != host:
            return 403, "Origin must be this server: pages of other sites may not use it."
        if self.token is not None and not self._knows_token(scope, headers):
            return 401, "A token is needed: open the address that the server printed."
        length = headers.get("content-length", "0")
        whole = length.isascii() and length.isdigit() and len(length) < 12
        if not whole or int(length) > BODY:
            return 413, f"A request may hold at most {BODY} bytes."
        if not self.allowed.spend():
            return 429, "Too many requests: wait a second."
        return 0, ""

    def _token_in_query(self, scope: Any) -> bool:
        query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=None)
        return any(self._matches(value) for value in query.get("token", []))

    def _knows_token(self, scope: Any, headers: dict[str, str]) -> bool:
        if self._token_in_query(scope):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._matches(cookie.value)

    def _matches(self, value: str) -> bool:
        return self.token is not None and hmac.compare_digest(value.encode(), self.token.encode())


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _seal(token: str | None) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"x-frame-options", b"DENY"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-cache"),
    ]
    if token is not None:
        cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
        headers.append((b"set-cookie", cookie.encode()))
    return headers


def _bounded(receive: Any) -> Any:
    """A body that says nothing of its length ends where the largest would."""
    size = 0

    async def bounded() -> Any:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        return message if size <= BODY else {"type": "http.disconnect"}

    return bounded


async def _answer(send: Any, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), *_seal(None)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
