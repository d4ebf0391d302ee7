"""HTTP connections that must send a whole request in time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

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
        return (
            self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
            and self.transport.get_protocol() is self  # else it has become a WebSocket
            and not self.transport.is_closing()
        )

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
