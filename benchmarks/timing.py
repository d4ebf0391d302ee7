"""Fair timing on a machine that may be busy: interleaved rounds, the best of each candidate."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

__all__ = ["machine", "race", "settle"]


def settle(result: Any) -> Any:
    """Wait for JAX's asynchronous results; others pass through."""
    import jax

    return jax.block_until_ready(result)


def race(
    candidates: dict[str, Callable[[], Any]], *, rounds: int = 5, budget: float = 20.0
) -> dict[str, dict[str, float]]:
    """Best wall and processor seconds of each candidate over interleaved rounds.

    Interleaving gives all candidates the same share of a busy machine; the minimum discards what
    other processes took. A first call of each warms caches and compilers up and is not counted.
    """
    for run in candidates.values():
        settle(run())
    best = {name: {"seconds": float("inf"), "cpu_seconds": float("inf")} for name in candidates}
    began = time.perf_counter()
    for _ in range(rounds):
        for name, run in candidates.items():
            wall, cpu = time.perf_counter(), time.process_time()
            settle(run())
            times = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
            best[name] = {key: min(best[name][key], times[key]) for key in times}
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
