# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportOptionalOperand=false
"""Random runs for benchmarks/verdicts.py: honest ones of every kind, and of another kind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import metastable as ms
from metastable.fields.random import CommonNoise
from metastable.fields.sums import Dense
from metastable.flows import Trajectory

Rng = np.random.Generator
# Few sizes, so that few shapes are compiled; the rare large ones are drawn one time in forty.
SIZES = ((16, 2), (40, 2), (40, 3), (16, 8), (120, 2), (120, 4), (40, 32))
LARGE = ((1000, 2), (1000, 3), (5000, 2))


def _size(rng: Rng, large: bool = True) -> tuple[int, int]:
    sizes = LARGE if large and rng.random() < 1 / 40 else SIZES
    return sizes[rng.integers(len(sizes))]


def _beta(rng: Rng, most: float = 100.0) -> float:
    return float(np.exp(rng.uniform(math.log(0.5), math.log(most))))


def new_seed(rng: Rng) -> int:
    return int(rng.integers(2**31))


def _start(rng: Rng, size: tuple[int, int] | None = None, cap: float = 0.3) -> ms.Points:
    """Uniform tokens, or a cap of them with the given probability; sometimes with masses."""
    n, d = size or _size(rng)
    if rng.random() < cap:
        mean = np.eye(d)[0]
        points = ms.von_mises_fisher(n, mean, 4.0 * d, seed=new_seed(rng)).points
    else:
        points = ms.uniform(n, d, seed=new_seed(rng)).points
    if rng.random() < 0.25:
        return ms.Points(points, rng.uniform(0.5, 2.0, n))
    return ms.Points(points)


def _matrix(rng: Rng, d: int) -> np.ndarray:
    return rng.normal(size=(d, d)) / math.sqrt(d)


def flown(start: Any, field: Any, horizon: float, **how: Any) -> Trajectory:
    if isinstance(start, ms.Points) and start.count < 1000 and "stepper" not in how:
        how["sum"] = Dense()  # one compilation for every β
    return ms.flow(start, field, horizon, progress=False, **how)


def _sa(rng: Rng) -> Trajectory:
    start, beta = _start(rng), _beta(rng)
    return flown(start, ms.SelfAttention(beta), float(rng.choice([4.0, 12.0, 40.0])))


def _usa(rng: Rng) -> Trajectory:
    start, beta = _start(rng), _beta(rng, 8.0)
    return flown(start, ms.SelfAttention(beta, normalized=False), 8.0 * math.exp(-0.8 * beta))


def _repulsive(rng: Rng) -> Trajectory:
    start, normalized = _start(rng), bool(rng.integers(2))
    beta = _beta(rng, 100.0 if normalized else 6.0)
    span = 10.0 if normalized else 10 * math.exp(-0.8 * beta)
    return flown(start, ms.SelfAttention(beta, value=-1.0, normalized=normalized), span)


def _general_value(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    value = _matrix(rng, start.dim) + np.eye(start.dim)
    if rng.integers(2):
        value = (value + value.T) / 2
    return flown(start, ms.SelfAttention(_beta(rng, 10.0), value=value), 20.0)


def _query_key(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    d = start.dim
    return flown(start, ms.SelfAttention(_beta(rng, 10.0), _matrix(rng, d), _matrix(rng, d)), 15.0)


def _own_energy(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    form = _matrix(rng, start.dim)
    form = form @ form.T + 0.3 * np.eye(start.dim)
    field = ms.SelfAttention(
        _beta(rng, 5.0), query=form, value=form, normalized=bool(rng.integers(2))
    )
    return flown(start, field, 6.0 if field.normalized else 1.0)


def _heads(rng: Rng) -> Trajectory:
    start, normalized = _start(rng, _size(rng, False)), bool(rng.integers(2))
    heads = [ms.SelfAttention(_beta(rng, 6.0), normalized=normalized) for _ in range(2)]
    field = ms.MultiHead(heads, [0.5, 1.5])
    return flown(start, field, 10.0 if normalized else 0.3)


def _causal(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    return flown(start, ms.SelfAttention(_beta(rng, 20.0), causal=True), 20.0)


def _position(rng: Rng) -> Trajectory:
    size = SIZES[int(rng.choice([0, 1, 3, 5]))]
    start = _start(rng, size, cap=0.6)
    scheme = [ms.Alibi(0.2), ms.Window(6.0, sinks=1), ms.Rope(100.0)][rng.integers(3)]
    causal = bool(rng.integers(2))
    field = ms.SelfAttention(_beta(rng, 6.0), causal=causal, position=scheme)
    return flown(start, field, 30.0)


def _feed_forward(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False), cap=0.6)
    d = start.dim
    after = ms.SelfAttention(_beta(rng, 4.0)) if rng.random() < 0.7 else None
    field = ms.FeedForward(
        _matrix(rng, d) + np.eye(d), None, rng.normal(size=d) / 4, jnp.tanh, after
    )
    return flown(start, field, 20.0)


PLACEMENTS = ("post", "pre", "peri", "ngpt", "depth_sqrt", "mix")


def _placement(name: str) -> Callable[[Rng], Trajectory]:
    def make(rng: Rng) -> Trajectory:
        kinds = dict(post=ms.PostNorm(), pre=ms.PreNorm(), peri=ms.PeriNorm(), mix=ms.Mix(2.0))
        kinds |= dict(ngpt=ms.NGPT(0.7), depth_sqrt=ms.DepthSqrt())
        start = _start(rng, _size(rng, False), cap=0.6).euclidean()
        field = ms.Block(ms.SelfAttention(_beta(rng, 6.0)), kinds[name])
        long = dict(pre=400.0, peri=400.0, mix=400.0, depth_sqrt=60.0)
        return flown(start, field, long.get(name, 15.0))

    return make


def _gain(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    return flown(
        start, ms.Gain(ms.SelfAttention(_beta(rng, 4.0)), rng.uniform(0.5, 1.5, start.dim)), 15.0
    )


def _sinkhorn(rng: Rng) -> Trajectory:
    start = _start(rng, SIZES[rng.integers(4)])
    return flown(start, ms.SinkhornAttention(_beta(rng, 3.0)), 12.0)


def _l2(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    query = _matrix(rng, start.dim) if rng.integers(2) else None
    return flown(start, ms.L2Attention(_beta(rng, 10.0), query=query), 12.0)


def _krause(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False)).euclidean()
    return flown(start, ms.Krause(lambda s: jnp.exp(-s / 2)), 12.0)


def _kuramoto(rng: Rng) -> Trajectory:
    free = bool(rng.integers(2))
    start = _start(rng, _size(rng, False) if free else (40, 2))
    frequencies = None if free else rng.normal(size=start.count) * 0.3
    return flown(start, ms.Kuramoto(float(rng.uniform(0.5, 3.0)), frequencies), 12.0)


def _potential(rng: Rng) -> Trajectory:
    start, a = _start(rng, _size(rng, False)), rng.uniform(0.2, 1.5, 3)
    return flown(start, ms.Potential(_Cubic(jnp.asarray(a))), 8.0)


class _Cubic(eqx.Module):
    """W(s) = a·(s, s², s³): a tree, so that it is compiled once for all numbers."""

    a: Any

    def __call__(self, s: Any) -> Any:
        return self.a[0] * s + self.a[1] * s**2 + self.a[2] * s**3


def _noise(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    kappa = float(np.exp(rng.uniform(0.0, math.log(3000.0))))
    field = ms.SelfAttention(_beta(rng, 10.0)) + ms.Noise(kappa)
    return ms.flow(start, field, 15.0, seed=new_seed(rng), sum=Dense(), progress=False)


def _random_depth(rng: Rng) -> Trajectory:
    start, beta = _start(rng, SIZES[rng.integers(6)]), _beta(rng, 4.0)
    field = ms.RandomValue(beta) if rng.random() < 0.8 else ms.RandomHeads(2, beta)
    span = float(rng.choice([1.0, 10.0])) / (start.dim - 1)
    how: dict[str, Any] = {"stepper": ms.Layers(span / 200)} if rng.integers(2) else {}
    return ms.flow(start, field, span, seed=new_seed(rng), progress=False, **how)


def _chain(rng: Rng) -> Trajectory:
    start = _start(rng, SIZES[rng.integers(6)], cap=0.6)
    width = float(rng.integers(4, 12)) if rng.integers(2) else None
    slope = float(rng.uniform(0.0, 2.0)) / start.count
    field = ms.PositionalAttention(_beta(rng, 4.0), slope, width=width)
    return flown(start, field, float(rng.choice([2.0, 8.0])))


def _rescaled(rng: Rng) -> Trajectory:
    d = int(rng.choice([2, 3]))
    start = ms.Points(rng.normal(size=(20, d)), on_sphere=False)
    value = None if rng.integers(2) else np.diag(np.sort(rng.uniform(0.2, 1.5, d))[::-1])
    span = float(rng.choice([4.0, 9.0]))
    return flown(start, ms.Rescaled(ms.SelfAttention(1.0, value=value)), span)


def _schedule(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    fields = [ms.SelfAttention(_beta(rng, 20.0)) for _ in range(4)]
    span = float(rng.choice([10.0, 40.0]))
    return flown(start, ms.Schedule.piecewise(fields, [1.0, 2.03, 3.7]), span)


def _layers(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    step = float(rng.choice([0.1, 1.0]))
    return flown(start, ms.SelfAttention(_beta(rng, 20.0)), 30 * step, stepper=ms.Layers(step))


def _fixed(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    return flown(
        start, ms.SelfAttention(_beta(rng, 20.0)), 10.0, stepper=ms.Fixed(0.05), sum=Dense()
    )


def _merging(rng: Rng) -> Trajectory:
    start = _start(rng, SIZES[int(rng.choice([1, 2, 4]))], cap=0.0)
    return flown(start, ms.SelfAttention(_beta(rng, 30.0)), math.inf, stepper=ms.Merging())


def _hardmax(rng: Rng) -> Trajectory:
    start = _start(rng, SIZES[int(rng.choice([1, 2]))], cap=0.0)
    return flown(start, ms.SelfAttention(1.0), math.inf, stepper=ms.Hardmax())


def _density(rng: Rng) -> Trajectory:
    dim, mode, phase = 2, int(rng.integers(1, 5)), rng.uniform(0, 6)
    size = float(10 ** rng.uniform(-4, -0.7))
    angle = lambda x: np.arctan2(x[..., 1], x[..., 0])
    start = ms.Density.from_function(lambda x: 1 + size * np.cos(mode * angle(x) + phase), dim)
    normalized = bool(rng.integers(2))
    field: Any = ms.SelfAttention(_beta(rng, 8.0 if normalized else 3.0), normalized=normalized)
    if rng.integers(2):
        field = field + ms.Noise(float(rng.uniform(3, 60)))
    return flown(start, field, 2.0 if normalized else 0.4, frames=41)


def _gaussian(rng: Rng) -> Trajectory:
    d = int(rng.choice([1, 2, 4]))
    root = _matrix(rng, d)
    start = ms.Gaussian(rng.normal(size=d), root @ root.T + 0.1 * np.eye(d))
    general = rng.integers(2)
    value = _matrix(rng, d) if general else None
    field = ms.SelfAttention(float(rng.uniform(0.2, 1.0)), _matrix(rng, d), _matrix(rng, d), value)
    if rng.random() < 0.3:
        return flown(start, field, 2.0, stepper=ms.Layers(0.1))
    return flown(start, field, 1.0, frames=41)


KINDS: dict[str, Callable[[Rng], Trajectory]] = {
    "SA": _sa,
    "USA": _usa,
    "V = −I": _repulsive,
    "general V": _general_value,
    "general Q, K": _query_key,
    "V = QᵀK symmetric": _own_energy,
    "multi-head": _heads,
    "causal": _causal,
    "ALiBi, window, RoPE": _position,
    "feed-forward": _feed_forward,
    **{f"block, {name}": _placement(name) for name in PLACEMENTS},
    "gain": _gain,
    "Sinkhorn": _sinkhorn,
    "L2": _l2,
    "Krause": _krause,
    "Kuramoto": _kuramoto,
    "potential": _potential,
    "noise": _noise,
    "random depth": _random_depth,
    "chain by position": _chain,
    "pure attention in R^d": _rescaled,
    "schedule": _schedule,
    "layers": _layers,
    "equal steps": _fixed,
    "merging": _merging,
    "hardmax": _hardmax,
    "density": _density,
    "Gaussian": _gaussian,
}


def others(run: Trajectory, rng: Rng) -> list[Any]:
    """Fields of other kinds that can take the place of the run's own, from the same start."""
    start, own = run.frames[0], run.field
    d, hot = start.dim, float(rng.uniform(1, 4))
    noise = [part for part in getattr(own, "parts", ()) if isinstance(part, ms.Noise)]
    if isinstance(start, ms.Gaussian):
        matrices = [(_matrix(rng, d), _matrix(rng, d), _matrix(rng, d)) for _ in range(2)]
        return [ms.SelfAttention(0.5, *m) for m in matrices] + [ms.SelfAttention(0.3)]
    if isinstance(own, ms.Rescaled):
        values = [None, -np.eye(d), np.diag(rng.uniform(0.2, 1.5, d)), _matrix(rng, d)]
        return [ms.Rescaled(ms.SelfAttention(hot, value=value)) for value in values]
    if isinstance(own, ms.Block):
        kinds = [ms.PostNorm(), ms.PreNorm(), ms.PeriNorm(), ms.NGPT(0.7), ms.DepthSqrt()]
        inner = [ms.SelfAttention(hot), ms.SelfAttention(hot, value=-1.0), ms.Kuramoto(2.0)]
        return [ms.Block(rng.choice(inner), kind) for kind in kinds]  # pyright: ignore
    if isinstance(own, ms.Krause):
        return [ms.SelfAttention(0.3), ms.SelfAttention(0.3, value=-1.0), ms.SelfAttention(2.0)]
    if isinstance(own, CommonNoise):
        other = [ms.RandomValue(3 * hot), ms.RandomValue(None), ms.RandomValue(hot, causal=True)]
        return [*other, ms.RandomValue(hot, 1.5), ms.Kuramoto(0.1) + ms.Noise(2.0)]
    plain = [ms.SelfAttention(hot), ms.SelfAttention(hot, value=-1.0), ms.Kuramoto(1.5)]
    plain += [ms.Potential(_Cubic(jnp.array([0.5, -1.0, 0.5]))), ms.Kuramoto(-1.0)]
    if isinstance(start, ms.Points):
        plain += [ms.SelfAttention(hot, value=_matrix(rng, d)), ms.SelfAttention(hot, causal=True)]
        plain += [ms.SelfAttention(hot, normalized=False)]
        # One whose tokens gather, and whose cluster goes on moving.
        plain += 2 * [ms.SelfAttention(hot, value=_matrix(rng, d) / 2 + 2 * np.eye(d))]
    return [field + noise[0] for field in plain] if noise else plain


def replaced(run: Trajectory, rng: Rng) -> Trajectory | None:
    """The run of another field from the same start, labelled with this one's."""
    fields = others(run, rng)
    other = fields[rng.integers(len(fields))]
    stepper, how, horizon, start = run.stepper, {}, float(run.times[-1]), run.frames[0]
    if isinstance(start, ms.Points) and start.on_sphere and getattr(run.field, "isotropic", False):
        # Growth rates are tested where tokens are many.
        start = ms.uniform(1000, 2, seed=new_seed(rng)) if rng.random() < 0.3 else start
    if isinstance(stepper, ms.Merging | ms.Hardmax):
        hot = ms.SelfAttention(float(rng.uniform(2, 8)), normalized=bool(rng.integers(2)))
        other, stepper, horizon = [hot, ms.Kuramoto(1.5)][rng.integers(2)], ms.Merging(), math.inf
    elif not isinstance(stepper, ms.Layers):
        # Clocks differ: what one field has done in its own time another has barely begun.
        horizon = float(rng.choice([horizon, 3.0, 25.0, 25.0]))
        how["frames"] = len(run.times)
    if stepper is not None:
        how["stepper"] = stepper
    try:
        new = ms.flow(start, other, horizon, seed=new_seed(rng), progress=False, **how)
    except ValueError:
        return None  # this stepper does not take that field
    return dataclasses.replace(new, field=run.field, stepper=run.stepper)
