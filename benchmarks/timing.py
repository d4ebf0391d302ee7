"""Fair timing on a machine that may be busy: interleaved rounds, the best of each candidate."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

__all__ = ["machine", "race"]


def race(
    candidates: dict[str, Callable[[], Any]], *, rounds: int = 5, budget: float = 20.0
) -> dict[str, float]:
    """Best seconds of each candidate over interleaved rounds.

    Interleaving gives all candidates the same share of a busy machine; the minimum discards what
    other processes took. A first call of each, which compiles and warms up, is not counted.
    """
    import jax

    for run in candidates.values():
        jax.block_until_ready(run())
    best = dict.fromkeys(candidates, float("inf"))
    began = time.perf_counter()
    for _ in range(rounds):
        for name, run in candidates.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            best[name] = min(best[name], time.perf_counter() - start)
        if time.perf_counter() - began > budget:
            break
    return best


def machine() -> str:
    """Processor and cores, as written on figures."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"
