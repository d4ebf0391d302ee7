"""Observables of every frame of a run, as one dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.flows import Trajectory
from metastable.measures import Density, Gaussian, Points
from metastable.observe.clusters import clusters
from metastable.observe.density import entropy, peaks
from metastable.observe.similarity import effective_rank
from metastable.observe.summary import attention_of, energy_series

if TYPE_CHECKING:
    import xarray

NAMES = {
    "tokens": "tokens with a place of their own",
    "clusters": "clusters (tokens: by linkage; density: maxima of the potential)",
    "order": "length of the mean direction, 1 for one cluster",
    "similarity": "mean cosine of pairs of different tokens",
    "effective_rank": "effective rank of the tokens",
    "energy": "interaction energy (scaled: 1 for one cluster)",
    "entropy": "entropy against the uniform density",
    "degree": "degree of the harmonics",
    "mean_length": "length of the mean",
    "smallest_variance": "smallest eigenvalue of the covariance",
    "largest_variance": "largest eigenvalue of the covariance",
}


def observables(
    run: Trajectory, own: Mapping[str, Callable[[Any], float]] | None = None
) -> xarray.Dataset:
    """One number a frame of each observable, along `time`; NaN where a frame has none.

    `own` are functions of a measure, by name. Cost: O(n) a frame besides clusters and rank.

    >>> import metastable as ms
    >>> run = ms.flow(ms.orthogonal(tokens=4, dim=4), ms.SelfAttention(1.0), 20.0, frames=3)
    >>> observables(run)["similarity"].values.round(3).tolist()
    [0.0, 1.0, 1.0]
    """
    import xarray

    head = attention_of(run.field)
    beta = None if head is None else float(head.beta) or None
    count = getattr(run.frames[0], "count", 0)
    rows = [_look(frame, beta, count) for frame in run.frames]
    energies = energy_series(run)
    for k, (row, frame) in enumerate(zip(rows, run.frames, strict=True)):
        row |= {} if energies is None else {"energy": float(energies[k])}
        row |= {name: float(function(frame)) for name, function in (own or {}).items()}
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
    counted = {"tokens", "clusters", "degree"} & {n for n in names if all(n in r for r in rows)}
    columns = {n: v.astype(int) if n in counted else v for n, v in columns.items()}
    variables = {n: ("time", v, {"long_name": NAMES.get(n, n)}) for n, v in columns.items()}
    if run.log_times is not None:
        variables["log_time"] = "time", run.log_times, {"long_name": "natural logarithm of t"}
    time = "time", run.times, {"clock": run.clock}
    return xarray.Dataset(variables, {"time": time}, {"clock": run.clock})


def _look(frame: Any, beta: float | None, count: int) -> dict[str, Any]:
    if isinstance(frame, Points):
        seen = {"tokens": frame.count, "clusters": clusters(frame, beta).count}
        return seen | _alignment(frame, count) | {"effective_rank": effective_rank(frame)}
    if isinstance(frame, Density):
        seen = {"clusters": peaks(frame, beta), "entropy": entropy(frame)}
        return seen | {"degree": frame.degree}
    if isinstance(frame, Gaussian):
        values = frame.eigenvalues
        seen = {"mean_length": float(np.linalg.norm(frame.mean))}
        return seen | {"smallest_variance": values[0], "largest_variance": values[-1]}
    return {}


def _alignment(frame: Points, tokens: int) -> dict[str, float]:
    """‖Σw x‖ and the mean of ⟨x_i,x_j⟩ over i ≠ j, of directions x.

    Σ_{i≠j} w_i w_j⟨x_i,x_j⟩ = ‖Σwx‖² − Σw²‖x‖²; a merged token stands for w·tokens at one place,
    whose pairs have cosine 1.
    """
    x, w = np.asarray(frame.points), np.asarray(frame.weights)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    x = np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)
    square, own = float(np.sum((w @ x) ** 2)), float(np.maximum(w * (w - 1 / tokens), 0).sum())
    pairs = 1 - float(w @ w) + own
    across = square - float(w**2 @ np.sum(x**2, axis=1)) + own
    return {"order": square**0.5, "similarity": across / pairs if pairs > 1e-12 else 1.0}
