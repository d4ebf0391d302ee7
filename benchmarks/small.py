"""Few tokens: a whole `flow` call against the plain loop that one would write instead.

Layers: x ← N(x + softmax(β x xᵀ) x), 300 times, from `flow(..., stepper=Layers(1.0))` with its
frames, checks and statistics, against loops in NumPy and in eager PyTorch, in float64 as ours. Each
loop is measured as one that keeps the last state only, and as one that keeps every third. "NumPy,
bare" leaves out the shift by the row maximum, which overflows at β > 700: the fastest loop known.
Ensembles: starts moved together by `flow_batch` against one `flow` after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import metastable as ms
from benchmarks import timing
from metastable.flows.batch import BATCH, flow_batch

DEPTH, BETA, EVERY = 300, 1.0, 3
SIZES = ((8, 2), (32, 8), (64, 16), (64, 64), (128, 64))
BATCHES = ((16, 3), (32, 8), (64, 16))


def numpy_loop(x: np.ndarray, keep: bool, bare: bool = False) -> list[np.ndarray]:
    kept = [x]
    for layer in range(1, DEPTH + 1):
        logits = BETA * (x @ x.T)
        a = np.exp(logits if bare else logits - logits.max(axis=1, keepdims=True))
        x = x + (a @ x) / a.sum(axis=1, keepdims=True)
        x = x / np.sqrt((x * x).sum(axis=1, keepdims=True))
        if keep and layer % EVERY == 0:
            kept.append(x)
    return kept if keep else [x]


def torch_loop(x: Any, keep: bool) -> list[Any]:
    import torch

    with torch.inference_mode():
        kept = [x]
        for layer in range(1, DEPTH + 1):
            x = x + torch.softmax(BETA * (x @ x.T), dim=1) @ x
            x = x / x.norm(dim=1, keepdim=True)
            if keep and layer % EVERY == 0:
                kept.append(x)
    return kept if keep else [x]


def layers(tokens: int, dim: int) -> dict[str, Any]:
    import torch

    start, field = ms.uniform(tokens, dim), ms.SelfAttention(BETA)
    x = np.asarray(start.points)
    given = torch.tensor(x)
    few: dict[str, Any] = {"stepper": ms.Layers(1.0), "progress": False}
    candidates: dict[str, Callable[[], Any]] = {
        "flow, 101 frames": lambda: ms.flow(start, field, DEPTH, **few),
        "flow, 2 frames": lambda: ms.flow(start, field, DEPTH, frames=2, **few),
        "NumPy, 101 frames": lambda: numpy_loop(x, True),
        "NumPy, last frame": lambda: numpy_loop(x, False),
        "NumPy, bare, last frame": lambda: numpy_loop(x, False, bare=True),
        "PyTorch, 101 frames": lambda: torch_loop(given, True),
        "PyTorch, last frame": lambda: torch_loop(given, False),
    }
    seconds = timing.race({name: _plain(run) for name, run in candidates.items()}, rounds=25)
    ours = np.asarray(candidates["flow, 101 frames"]().frames[-1].points)
    error = float(np.abs(ours - numpy_loop(x, False)[0]).max())
    return {"tokens": tokens, "dim": dim, "seconds": seconds, "difference": error}


def _plain(run: Callable[[], Any]) -> Callable[[], Any]:
    """Without its result: what `race` waits for must be arrays of JAX."""

    def call() -> None:
        run()

    return call


def batches(tokens: int, dim: int) -> dict[str, Any]:
    fields = {
        "SelfAttention": ms.SelfAttention(4.0),
        "Schedule": ms.Schedule(_warming),
        "Potential": ms.Potential(_cubic),
    }
    rows = {}
    for name, field in fields.items():
        starts = [(ms.uniform(tokens, dim, seed=seed), field) for seed in range(BATCH)]
        candidates: dict[str, Callable[[], Any]] = {
            "together": lambda s=starts: flow_batch(s, 10.0, 101, ms.Adaptive()),
            "one by one": lambda s=starts: [ms.flow(m, f, 10.0, progress=False) for m, f in s],
        }
        rows[name] = timing.race({key: _plain(run) for key, run in candidates.items()}, rounds=3)
    return {"tokens": tokens, "dim": dim, "starts": BATCH, "seconds": rows}


def _warming(t: Any) -> ms.SelfAttention:
    return ms.SelfAttention(1.0 + t)


def _cubic(cosine: Any) -> Any:
    return cosine**3


def _listed(ratios: dict[str, float]) -> str:
    return "; ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())


def measure(quick: bool = False) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    rows = [layers(*size) for size in (SIZES[:2] if quick else SIZES)]
    groups = [batches(*size) for size in (BATCHES[:1] if quick else BATCHES)]
    summary = []
    for row in rows:
        s = row["seconds"]
        ours, last = s["flow, 101 frames"], s["flow, 2 frames"]
        framed = {name: s[f"{name}, 101 frames"] / ours for name in ("NumPy", "PyTorch")}
        names = "NumPy", "NumPy, bare", "PyTorch"
        alone = {name: s[f"{name}, last frame"] / last for name in names}
        summary.append(
            f"n = {row['tokens']}, d = {row['dim']}, {DEPTH} layers: flow {1e3 * ours:.2f} ms; "
            f"times as long with frames: {_listed(framed)}; for the last frame: {_listed(alone)}"
        )
    for group in groups:
        ratios = ", ".join(
            f"{name} {s['one by one'] / s['together']:.0f}" for name, s in group["seconds"].items()
        )
        summary.append(
            f"{group['starts']} starts of {group['tokens']} tokens in R^{group['dim']}: together "
            f"faster than one by one by {ratios}"
        )
    return {"rows": rows, "batches": groups, "summary": summary}
