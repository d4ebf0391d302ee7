"""Use of the explorer for a long time: does its memory stay where it is?

python -m tests.explorer.soak --stops 1000 --minutes 5

A server in a process of its own; first slider stops (`/api/place` and `/api/predict` with another
number of tokens and another β each), then runs over the WebSocket, one after another. Printed: the
memory of the serving process and of its children. The exit status is 1 if the serving process
grew by 100 MB or more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.explorer.serving import Served, until, watch

MOST = 100.0  # MB


def soak(stops: int, minutes: float) -> float:
    """Growth of the serving process in MB; a line for each tenth of the way."""
    with tempfile.TemporaryDirectory() as folder:
        server = Served(Path(folder))
        try:
            until(lambda: _is_warm(server), 300)
            before = _shown(server, "before")
            began, slowest = time.monotonic(), 0.0
            for k in range(1, stops + 1):
                slowest = max(slowest, _stop(server, k))
                if k % max(1, stops // 10) == 0:
                    _shown(server, f"{k} stops")
            if stops:
                mean = (time.monotonic() - began) / stops
                print(f"{stops} stops: {mean:.2f} s each, the slowest {slowest:.2f} s")
            _live(server, minutes)
            return _shown(server, "after") - before
        finally:
            server.stop()


def _spec(k: int) -> dict:
    return {
        "measure": {"tokens": 50 + 7 * (k % 997), "dim": 2 + k % 2},
        "field": {"beta": 1.0 + 0.01 * k},
    }


def _stop(server: Served, k: int) -> float:
    """One stop of a slider; the seconds it took."""
    began = time.monotonic()
    with server.http() as http:
        for path in ("place", "predict"):
            answer = http.post(f"/api/{path}", json={"spec": _spec(k)})
            assert answer.status_code == 200, answer.text
    return time.monotonic() - began


def _live(server: Served, minutes: float) -> None:
    deadline, runs, shown = time.monotonic() + 60 * minutes, 0, 0.0
    with server.socket() as socket:
        while time.monotonic() < deadline:
            spec = {"measure": {"tokens": 60 + 10 * (runs % 20), "dim": 2 + runs % 2}}
            spec |= {"field": {"beta": 2.0 + runs % 7}, "flow": {"horizon": 5.0, "frames": 101}}
            frames, last = watch(socket, spec)
            assert last["type"] == "finished" and len(frames) == 101, last
            runs += 1
            if time.monotonic() > shown + 6 * minutes:
                shown = time.monotonic()
                _shown(server, f"{runs} runs")


def _is_warm(server: Served) -> bool:
    """Whether questions are answered, and the process for runs has been started."""
    with server.http() as http:
        answer = http.post("/api/place", json={"spec": _spec(0)})
    return answer.status_code == 200 and len(_children(server)) == 2


def _children(server: Served) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def _shown(server: Served, when: str) -> float:
    own = psutil.Process(server.process.pid).memory_info().rss / 1e6
    rest = sorted(round(child.memory_info().rss / 1e6) for child in _children(server))
    print(f"{when:>12}: server {own:.1f} MB, children {rest} MB", flush=True)
    return own


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--stops", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=5.0)
    chosen = parser.parse_args()
    grown = soak(chosen.stops, chosen.minutes)
    print(f"the serving process grew by {grown:.1f} MB (allowed: {MOST:.0f})")
    sys.exit(grown >= MOST)
