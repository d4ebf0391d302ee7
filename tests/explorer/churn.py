"""Connections that open, ask for something, and vanish at random."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import psutil
from websockets.exceptions import WebSocketException

from tests.explorer.serving import Inside, say, until, watch

SPEC = {
    "measure": {"tokens": 100, "dim": 2},
    "field": {"beta": 4.0},
    "flow": {"horizon": 12.0, "frames": 481, "stepper": {"kind": "layers", "step": 0.025}},
}


def churn(server: Inside, connections: int, seconds: float, growth: float) -> list[str]:
    """Half the time to warm up, then measure: what there is more of at the end.

    Tasks, threads, files, processes; `growth` is how many MiB more the server's process may hold.
    """
    with server.socket() as socket:
        watch(socket, SPEC)
    states = []
    for half in range(2):
        _storm(server, connections, seconds / 2, seed=half)
        until(lambda: server.desk.pool.busy == 0, 60)
        until(lambda: server.desk.connected == 0, 60)
        time.sleep(0.5)
        states.append(_state(server))
    before, after = states
    print(f"\nafter half the time {before}\nat the end          {after}")
    most = {
        "tasks": min(before["tasks"], 6),
        "workers": 1,
        "runs": server.desk.kept.most,
        "files": before["files"] + 4,
        "threads": before["threads"] + 4,
        "memory": before["memory"] + growth,
        "worker memory": 1000,
    }
    return [
        f"{name}: {after[name]} > {limit}" for name, limit in most.items() if after[name] > limit
    ]


def _storm(server: Inside, connections: int, seconds: float, seed: int) -> None:
    deadline = time.monotonic() + seconds

    def visit(chance: random.Random) -> None:
        while time.monotonic() < deadline:
            try:
                with server.socket() as socket:
                    if chance.random() < 0.7:
                        say(socket, type="start", spec=SPEC)
                    for _ in range(chance.randrange(6)):
                        try:
                            socket.recv(chance.random())
                        except TimeoutError:
                            say(socket, type=chance.choice(["ack", "pause", "stop", "nonsense"]))
                    if chance.random() < 0.5:
                        socket.socket.close()  # without a word
            except (OSError, EOFError, WebSocketException):
                pass

    threads = [
        threading.Thread(target=visit, args=(random.Random(100 * seed + k),))
        for k in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _state(server: Inside) -> dict[str, Any]:
    here = psutil.Process()
    sizes = [one.memory_info().rss / 2**20 for one in (here, *server.workers)]
    return {
        "tasks": server.tasks,
        "workers": len(sizes) - 1,
        "runs": len(server.desk.kept.runs),
        "files": here.num_fds(),
        "threads": threading.active_count(),
        "memory": round(sizes[0], 1),
        "worker memory": round(sum(sizes[1:]), 1),
    }
