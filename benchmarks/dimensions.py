"""The field on S³ … S⁷: the chosen sum against dense peers in double precision, with errors."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

import metastable as ms
from benchmarks import peers, timing
from benchmarks.lowdim import velocity
from metastable.fields.sums import choose_sum
from metastable.fields.sums.harmonic import HarmonicSum

# d, β, tokens, tolerance asked of `choose_sum`, and the error of the velocity that is wanted.
CASES = [
    (4, 9.0, 65536, 1e-6, 1e-6),
    (5, 4.0, 32768, 1e-4, 1e-4),
    (6, 4.0, 131072, 1e-4, 1e-4),
    (7, 2.0, 32768, 1e-4, 1e-4),
    (8, 1.0, 32768, 1e-4, 1e-4),
]
SAMPLE = 256  # tokens at which the error is taken
# Of a peer's tiles; among 64 to 1024 rows and 512 to 65536 columns the fastest for PyTorch.
ROWS, COLUMNS = 512, 1024


def measure(quick: bool = False) -> dict:
    rows = []
    for dim, beta, count, tolerance, wanted in CASES:
        rows.append(_one(dim, beta, count // 8 if quick else count, tolerance, wanted))
    result = {"rows": rows, "summary": [_line(row) for row in rows]}
    small = _keops(4, 9.0, 8192)
    return result | ({} if small is None else {"keops": small})


def _keops(dim: int, beta: float, count: int) -> dict | None:
    """KeOps, where it is installed, against the other peers at a size that it finishes soon."""
    x = np.asarray(ms.uniform(tokens=count, dim=dim, seed=0).points)
    keops = peers._keops(x, beta)
    if keops is None:
        return None
    seconds = timing.race({"KeOps": keops, **_peers(x, beta)}, rounds=5, budget=30.0)
    return {"d": dim, "beta": beta, "n": count, "seconds": seconds}


def _one(dim: int, beta: float, count: int, tolerance: float, wanted: float) -> dict:
    measure = ms.uniform(tokens=count, dim=dim, seed=0)
    chosen = choose_sum(measure, ms.SelfAttention(beta), tolerance)
    x = np.asarray(measure.points)
    candidates: dict[str, Callable] = {
        "chosen": velocity(measure, beta, chosen),
        "dense": velocity(measure, beta, ms.Dense()),
        **_peers(x, beta),
    }
    # Every candidate is called once to warm up; all pairs of the largest case take minutes a round.
    seconds = timing.race(candidates, rounds=3, budget=60.0)
    exact = _exact(x, beta)
    size = np.max(np.linalg.norm(exact, axis=1))
    gaps = np.linalg.norm(np.asarray(candidates["chosen"]())[:SAMPLE] - exact, axis=1)
    others = {name: s for name, s in seconds.items() if name not in ("chosen", "dense")}
    best = min(others, key=lambda name: others[name])
    return {
        "d": dim,
        "beta": beta,
        "n": count,
        "tolerance": tolerance,
        "wanted_error": wanted,
        "sum": chosen.name,
        "harmonic": type(chosen) is HarmonicSum,
        "relative_error": float(np.max(gaps) / size),
        "seconds": seconds,
        "best_peer": best,
        "ratio": others[best] / seconds["chosen"],
        "ratio_to_dense": seconds["dense"] / seconds["chosen"],
    }


def _peers(x: np.ndarray, beta: float) -> dict[str, Callable]:
    """All pairs in double precision, in tiles that fit the cache, on all cores."""
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    points = torch.tensor(x)
    charges = torch.cat([torch.ones(len(x), 1, dtype=points.dtype), points], dim=1)
    scaled = [(beta * part).T.contiguous() for part in points.split(COLUMNS)]

    def in_pytorch() -> torch.Tensor:
        parts = []
        for at in points.split(ROWS):
            total = torch.zeros(len(at), charges.shape[1], dtype=points.dtype)
            for keys, charge in zip(scaled, charges.split(COLUMNS), strict=True):
                total.addmm_(torch.mm(at, keys).sub_(beta).exp_(), charge)
            v = total[:, 1:] / total[:, :1]
            parts.append(v - (v * at).sum(1, keepdim=True) * at)
        return torch.cat(parts)

    def in_numpy() -> np.ndarray:
        parts, columns = [], [part.numpy() for part in scaled]
        for start in range(0, len(x), ROWS):
            at = x[start : start + ROWS]
            total = np.zeros((len(at), charges.shape[1]))
            for keys, charge in zip(columns, charges.split(COLUMNS), strict=True):
                k = at @ keys
                k -= beta
                total += np.exp(k, out=k) @ charge.numpy()
            v = total[:, 1:] / total[:, :1]
            parts.append(v - np.sum(v * at, axis=1)[:, None] * at)
        return np.concatenate(parts)

    return {
        "PyTorch in tiles": in_pytorch,
        "PyTorch SDPA": peers.sdpa(x, beta),
        "NumPy in tiles": in_numpy,
    }


def _exact(x: np.ndarray, beta: float) -> np.ndarray:
    """The whole sum in NumPy at the first tokens."""
    at = x[:SAMPLE]
    k = np.exp(beta * (at @ x.T - 1))
    v = (k @ x) / k.sum(1)[:, None]
    return v - np.sum(v * at, axis=1)[:, None] * at


def _line(row: dict) -> str:
    return (
        f"d = {row['d']}, beta = {row['beta']:g}, n = {row['n']}: {row['ratio']:.1f} times as fast "
        f"as {row['best_peer']}, {row['ratio_to_dense']:.1f} times as our dense sum; error "
        f"{row['relative_error']:.1e} of the largest velocity ({row['sum']})"
    )
