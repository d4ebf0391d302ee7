# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportOptionalOperand=false
"""Runs with an error planted, for benchmarks/verdicts.py."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from verdict_runs import KINDS, PLACEMENTS, SIZES, Rng, flown, new_seed

import metastable as ms
from metastable.fields.sums import Dense
from metastable.flows import Trajectory


def _tokens(rng: Rng) -> Trajectory:
    """A run in which something happens: uniform tokens, β in 3 … 20."""
    start = ms.uniform(*SIZES[rng.integers(len(SIZES) - 1)], seed=new_seed(rng))
    return flown(start, ms.SelfAttention(float(rng.uniform(3, 20))), float(rng.choice([6.0, 20.0])))


def _relabelled(make: Callable[[Rng], Trajectory], change: Callable[[Any, Rng], Any]) -> Any:
    def plant(rng: Rng) -> Trajectory:
        run = make(rng)
        return dataclasses.replace(run, field=change(run.field, rng))

    return plant


def _heat(low: float, high: float | None = None) -> Callable[[Any, Rng], Any]:
    """β of every head times a factor, or its inverse."""

    def change(field: Any, rng: Rng) -> Any:
        factor = low if rng.integers(2) else high or 1 / low
        heads = lambda tree: [
            node.beta
            for node in jax.tree.leaves(tree, is_leaf=lambda n: isinstance(n, ms.SelfAttention))
            if isinstance(node, ms.SelfAttention)
        ]
        return eqx.tree_at(heads, field, replace_fn=lambda beta: beta * factor)

    return change


def _clock(rng: Rng) -> Trajectory:
    run = _tokens(rng)
    return dataclasses.replace(run, times=run.times * (1 + 0.005 * float(rng.choice([-1, 1]))))


def _moving(run: Trajectory, rng: Rng) -> int:
    """A frame after which the stated field still moves a token by 100 tolerances a frame."""
    speed = [float(np.abs(run.field.velocity(f)).max()) for f in run.frames[:-2]]
    allowed = 1e-6 * math.sqrt(run.frames[0].points.size)
    moving = np.flatnonzero(np.array(speed) * np.diff(run.times)[:-1] > allowed)
    return int(rng.choice(moving[: max(1, len(moving) - 1)]))


def _frozen(rng: Rng) -> Trajectory:
    run = _tokens(rng)
    k = _moving(run, rng)
    frames = tuple(run.frames[min(j, k)] for j in range(len(run.frames)))
    return dataclasses.replace(run, frames=frames)


def _changed(rng: Rng) -> Trajectory:
    run = _tokens(rng)
    k = _moving(run, rng)
    other = ms.SelfAttention(float(run.field.beta) / 3)
    later = flown(
        run.frames[k], other, float(run.times[-1] - run.times[k]), frames=len(run.times) - k
    )
    return dataclasses.replace(run, frames=(*run.frames[:k], *later.frames))


def _one_off(rng: Rng) -> Trajectory:
    run = _tokens(rng)
    k, token = int(rng.integers(1, len(run.frames))), int(rng.integers(run.frames[0].count))
    points = np.array(run.frames[k].points)
    kick = rng.normal(size=points.shape[1])
    kick -= (kick @ points[token]) * points[token]
    points[token] += 1e-3 * kick / np.linalg.norm(kick)
    points[token] /= np.linalg.norm(points[token])
    frames = [*run.frames[:k], run.frames[k].at(points), *run.frames[k + 1 :]]
    return dataclasses.replace(run, frames=tuple(frames))


def _swapped(rng: Rng) -> Trajectory:
    run = _tokens(rng)
    frames = run.frames
    for k in rng.permutation(np.arange(1, len(frames))):
        x = np.asarray(frames[k].points)
        apart = np.argwhere(np.linalg.norm(x[:, None] - x[None], axis=2) >= 1e-2)
        if len(apart):
            order, pair = np.arange(len(x)), apart[rng.integers(len(apart))]
            order[pair] = pair[::-1]
            late = [f.at(f.points[order]) if j >= k else f for j, f in enumerate(frames)]
            return dataclasses.replace(run, frames=tuple(late))
    raise RuntimeError("all tokens are one")


def _spaced(rng: Rng) -> Trajectory:
    start = ms.uniform(*SIZES[rng.integers(len(SIZES) - 1)], seed=new_seed(rng))
    return flown(
        start, ms.SelfAttention(float(rng.uniform(3, 20))), 6.0, frames=np.geomspace(0.01, 6, 40)
    )


def _unweighted(rng: Rng) -> Trajectory:
    run = _tokens(rng)
    weights = rng.uniform(0.5, 2.0, run.frames[0].count)
    frames = tuple(ms.Points(frame.points, weights) for frame in run.frames)
    return dataclasses.replace(run, frames=frames)


def _noise_absent(rng: Rng) -> Trajectory:
    run = _tokens(rng)
    return dataclasses.replace(run, field=run.field + ms.Noise(float(rng.uniform(20, 200))))


def _noise_off(rng: Rng) -> Trajectory:
    start = ms.uniform(*SIZES[rng.integers(5)], seed=new_seed(rng))
    kappa = float(rng.uniform(10, 100))
    head = ms.SelfAttention(float(rng.uniform(3, 10)))
    run = ms.flow(
        start, head + ms.Noise(kappa), 15.0, seed=new_seed(rng), sum=Dense(), progress=False
    )
    return dataclasses.replace(
        run, field=head + ms.Noise(kappa * float(rng.choice([1.5, 1 / 1.5])))
    )


def _gaussian_off(rng: Rng) -> Trajectory:
    run = KINDS["Gaussian"](rng)
    name = str(rng.choice(["query", "key", "value"]))
    old = getattr(run.field, name)
    matrices = {n: getattr(run.field, n) for n in ("query", "key", "value")}
    matrices[name] = 1.01 * (np.eye(run.frames[0].dim) if old is None else np.asarray(old))
    return dataclasses.replace(run, field=ms.SelfAttention(run.field.beta, **matrices))


def _placement_off(rng: Rng) -> Trajectory:
    names = [name for name in PLACEMENTS if name != "mix"]
    first, second = rng.choice(len(names), 2, replace=False)
    kinds = [ms.PostNorm(), ms.PreNorm(), ms.PeriNorm(), ms.NGPT(0.7), ms.DepthSqrt()]
    run = KINDS[f"block, {names[first]}"](rng)
    return dataclasses.replace(run, field=ms.Block(run.field.field, kinds[second]))


PLANTS: dict[str, Callable[[Rng], Trajectory]] = {
    "β ± 2 %": _relabelled(_tokens, _heat(1.02)),
    "clock ± 0.5 %": _clock,
    "V = 0.995 I": _relabelled(_tokens, lambda f, _: ms.SelfAttention(f.beta, value=0.995)),
    "frozen from a frame on": _frozen,
    "another field from a frame on": _changed,
    "one token off by 1e−3 in one frame": _one_off,
    "two tokens swapped": _swapped,
    "log-spaced frames, β ± 2 %": _relabelled(_spaced, _heat(1.02)),
    "weights ignored": _unweighted,
    "mask dropped": _relabelled(KINDS["causal"], lambda f, _: ms.SelfAttention(f.beta)),
    "a head dropped": _relabelled(
        KINDS["multi-head"], lambda f, _: ms.MultiHead(f.heads[:1], f.outputs[:1])
    ),
    "placement mislabelled": _placement_off,
    "layers, β ± 1 %": _relabelled(KINDS["layers"], _heat(1.01)),
    "merging, β ± 5 %": _relabelled(KINDS["merging"], _heat(1.05)),
    "density, β ± 1 %": _relabelled(KINDS["density"], _heat(1.01)),
    "Gaussian, Q, K or V off by 1 %": _gaussian_off,
    "noise claimed and absent": _noise_absent,
    "κ off by 1.5": _noise_off,
}
