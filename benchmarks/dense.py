"""All pairs at n = 16 384 in several dimensions and both precisions, against peers."""

from __future__ import annotations

import numpy as np

import metastable as ms
from benchmarks import draw as figures
from benchmarks import peers, timing
from metastable.core.numerics import jax, jnp

BETA = 9.0


def measure(quick: bool = False) -> dict:
    rows, summary = [], []
    count = 4096 if quick else 16384
    for dim in (2, 16, 64, 256):
        for dtype in (np.float64, np.float32):
            rows += _one(count, dim, dtype)
    for dtype in ("float64", "float32"):
        at = {r["method"]: r["seconds"] for r in rows if r["d"] == 64 and r["dtype"] == dtype}
        ratio = at["PyTorch SDPA"] / at["dense"]
        summary.append(f"d = 64, {dtype}: {ratio:.2f} times the speed of PyTorch SDPA")
    return {"n": count, "rows": rows, "summary": summary}


def _one(count: int, dim: int, dtype) -> list[dict]:
    measure = ms.Points(ms.uniform(tokens=count, dim=dim, seed=0).points, dtype=dtype)
    x, beta = measure.points, jnp.asarray(BETA)
    equal = jnp.full(count, -np.log(count), dtype)
    own = jax.jit(lambda x, b: ms.Dense().attend(_kernel(x, b, equal, own=True), x))
    other = jax.jit(lambda x, b: ms.Dense().attend(_kernel(x, b, equal, own=False), x))
    candidates = {
        "dense": lambda: own(x, beta),
        "dense, any kernel": lambda: other(x, beta),
        "PyTorch SDPA": peers.sdpa(np.asarray(x), BETA),
    }
    if dim == 64:
        candidates |= {k: f for k, f in peers.peers(measure, BETA).items() if k not in candidates}
    seconds = timing.race(candidates, rounds=3, budget=8.0)
    name = np.dtype(dtype).name
    return [
        {"n": count, "d": dim, "dtype": name, "method": m, "seconds": s} for m, s in seconds.items()
    ]


def _kernel(x, beta, column, own):
    from metastable.fields.sums.kernel import Kernel

    return Kernel(beta, x, x, column, zonal=own, own=own)


def draw(result: dict, path) -> None:
    panels = {
        dtype: [r | {"x": r["d"], "y": r["seconds"]} for r in result["rows"] if r["dtype"] == dtype]
        for dtype in ("float64", "float32")
    }
    title = f"All pairs, n = {result['n']}"
    figures.lines(
        panels, path, title, "dimension d", "seconds per field evaluation", result["machine"]
    )
