"""How often verdicts are wrong: false alarms on honest runs, and planted errors that are caught.

    python benchmarks/verdicts.py alarms --pages 2000 --state out/verdicts
    python benchmarks/verdicts.py power --runs 50 --state out/verdicts
    python benchmarks/verdicts.py table --state out/verdicts

Every kind of field, measure and stepper in turn, from random starts and parameters. What was done
is kept in the state folder, one line a page; stopped, it goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import metastable as ms
from metastable.core.verdict import DISAGREE, NOT_APPLICABLE
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


def _seed(rng: Rng) -> int:
    return int(rng.integers(2**31))


def _start(rng: Rng, size: tuple[int, int] | None = None, cap: float = 0.3) -> ms.Points:
    """Uniform tokens, or a cap of them with the given probability; sometimes with masses."""
    n, d = size or _size(rng)
    if rng.random() < cap:
        mean = np.eye(d)[0]
        points = ms.von_mises_fisher(n, mean, 4.0 * d, seed=_seed(rng)).points
    else:
        points = ms.uniform(n, d, seed=_seed(rng)).points
    if rng.random() < 0.25:
        return ms.Points(points, rng.uniform(0.5, 2.0, n))
    return ms.Points(points)


def _matrix(rng: Rng, d: int) -> np.ndarray:
    return rng.normal(size=(d, d)) / math.sqrt(d)


def _flow(start: Any, field: Any, horizon: float, **how: Any) -> Trajectory:
    if isinstance(start, ms.Points) and start.count < 1000 and "stepper" not in how:
        how["sum"] = Dense()  # one compilation for every β
    return ms.flow(start, field, horizon, progress=False, **how)


def _sa(rng: Rng) -> Trajectory:
    start, beta = _start(rng), _beta(rng)
    return _flow(start, ms.SelfAttention(beta), float(rng.choice([4.0, 12.0, 40.0])))


def _usa(rng: Rng) -> Trajectory:
    start, beta = _start(rng), _beta(rng, 8.0)
    return _flow(start, ms.SelfAttention(beta, normalized=False), 8.0 * math.exp(-0.8 * beta))


def _repulsive(rng: Rng) -> Trajectory:
    start, normalized = _start(rng), bool(rng.integers(2))
    beta = _beta(rng, 100.0 if normalized else 6.0)
    span = 10.0 if normalized else 10 * math.exp(-0.8 * beta)
    return _flow(start, ms.SelfAttention(beta, value=-1.0, normalized=normalized), span)


def _general_value(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    value = _matrix(rng, start.dim) + np.eye(start.dim)
    if rng.integers(2):
        value = (value + value.T) / 2
    return _flow(start, ms.SelfAttention(_beta(rng, 10.0), value=value), 20.0)


def _query_key(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    d = start.dim
    return _flow(start, ms.SelfAttention(_beta(rng, 10.0), _matrix(rng, d), _matrix(rng, d)), 15.0)


def _own_energy(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    form = _matrix(rng, start.dim)
    form = form @ form.T + 0.3 * np.eye(start.dim)
    field = ms.SelfAttention(
        _beta(rng, 5.0), query=form, value=form, normalized=bool(rng.integers(2))
    )
    return _flow(start, field, 6.0 if field.normalized else 1.0)


def _heads(rng: Rng) -> Trajectory:
    start, normalized = _start(rng, _size(rng, False)), bool(rng.integers(2))
    heads = [ms.SelfAttention(_beta(rng, 6.0), normalized=normalized) for _ in range(2)]
    field = ms.MultiHead(heads, [0.5, 1.5])
    return _flow(start, field, 10.0 if normalized else 0.3)


def _causal(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    return _flow(start, ms.SelfAttention(_beta(rng, 20.0), causal=True), 20.0)


def _position(rng: Rng) -> Trajectory:
    size = SIZES[int(rng.choice([0, 1, 3, 5]))]
    start = _start(rng, size, cap=0.6)
    scheme = [ms.Alibi(0.2), ms.Window(6.0, sinks=1), ms.Rope(100.0)][rng.integers(3)]
    causal = bool(rng.integers(2))
    field = ms.SelfAttention(_beta(rng, 6.0), causal=causal, position=scheme)
    return _flow(start, field, 30.0)


def _feed_forward(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False), cap=0.6)
    d = start.dim
    after = ms.SelfAttention(_beta(rng, 4.0)) if rng.random() < 0.7 else None
    field = ms.FeedForward(
        _matrix(rng, d) + np.eye(d), None, rng.normal(size=d) / 4, jnp.tanh, after
    )
    return _flow(start, field, 20.0)


PLACEMENTS = ("post", "pre", "peri", "ngpt", "depth_sqrt", "mix")


def _placement(name: str) -> Callable[[Rng], Trajectory]:
    def make(rng: Rng) -> Trajectory:
        kinds = dict(post=ms.PostNorm(), pre=ms.PreNorm(), peri=ms.PeriNorm(), mix=ms.Mix(2.0))
        kinds |= dict(ngpt=ms.NGPT(0.7), depth_sqrt=ms.DepthSqrt())
        start = _start(rng, _size(rng, False), cap=0.6).euclidean()
        field = ms.Block(ms.SelfAttention(_beta(rng, 6.0)), kinds[name])
        long = dict(pre=400.0, peri=400.0, mix=400.0, depth_sqrt=60.0)
        return _flow(start, field, long.get(name, 15.0))

    return make


def _gain(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    return _flow(
        start, ms.Gain(ms.SelfAttention(_beta(rng, 4.0)), rng.uniform(0.5, 1.5, start.dim)), 15.0
    )


def _sinkhorn(rng: Rng) -> Trajectory:
    start = _start(rng, SIZES[rng.integers(4)])
    return _flow(start, ms.SinkhornAttention(_beta(rng, 3.0)), 12.0)


def _l2(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    query = _matrix(rng, start.dim) if rng.integers(2) else None
    return _flow(start, ms.L2Attention(_beta(rng, 10.0), query=query), 12.0)


def _krause(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False)).euclidean()
    return _flow(start, ms.Krause(lambda s: jnp.exp(-s / 2)), 12.0)


def _kuramoto(rng: Rng) -> Trajectory:
    free = bool(rng.integers(2))
    start = _start(rng, _size(rng, False) if free else (40, 2))
    frequencies = None if free else rng.normal(size=start.count) * 0.3
    return _flow(start, ms.Kuramoto(float(rng.uniform(0.5, 3.0)), frequencies), 12.0)


def _potential(rng: Rng) -> Trajectory:
    start, a = _start(rng, _size(rng, False)), rng.uniform(0.2, 1.5, 3)
    return _flow(start, ms.Potential(_Cubic(jnp.asarray(a))), 8.0)


class _Cubic(eqx.Module):
    """W(s) = a·(s, s², s³): a tree, so that it is compiled once for all numbers."""

    a: Any

    def __call__(self, s: Any) -> Any:
        return self.a[0] * s + self.a[1] * s**2 + self.a[2] * s**3


def _noise(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    field = ms.SelfAttention(_beta(rng, 10.0)) + ms.Noise(float(rng.uniform(10, 300)))
    return ms.flow(start, field, 15.0, seed=_seed(rng), sum=Dense(), progress=False)


def _rescaled(rng: Rng) -> Trajectory:
    d = int(rng.choice([2, 3]))
    start = ms.Points(rng.normal(size=(20, d)), on_sphere=False)
    value = None if rng.integers(2) else np.diag(np.sort(rng.uniform(0.2, 1.5, d))[::-1])
    return _flow(start, ms.Rescaled(ms.SelfAttention(1.0, value=value)), 6.0)


def _schedule(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    fields = [ms.SelfAttention(_beta(rng, 20.0)) for _ in range(4)]
    return _flow(start, ms.Schedule.piecewise(fields, [1.0, 2.03, 3.7]), 10.0)


def _layers(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    step = float(rng.choice([0.1, 1.0]))
    return _flow(start, ms.SelfAttention(_beta(rng, 20.0)), 30 * step, stepper=ms.Layers(step))


def _fixed(rng: Rng) -> Trajectory:
    start = _start(rng, _size(rng, False))
    return _flow(
        start, ms.SelfAttention(_beta(rng, 20.0)), 10.0, stepper=ms.Fixed(0.05), sum=Dense()
    )


def _merging(rng: Rng) -> Trajectory:
    start = _start(rng, SIZES[int(rng.choice([1, 2, 4]))], cap=0.0)
    return _flow(start, ms.SelfAttention(_beta(rng, 30.0)), math.inf, stepper=ms.Merging())


def _hardmax(rng: Rng) -> Trajectory:
    start = _start(rng, SIZES[int(rng.choice([1, 2]))], cap=0.0)
    return _flow(start, ms.SelfAttention(1.0), math.inf, stepper=ms.Hardmax())


def _density(rng: Rng) -> Trajectory:
    dim, mode, phase = 2, int(rng.integers(1, 5)), rng.uniform(0, 6)
    size = float(10 ** rng.uniform(-4, -0.7))
    angle = lambda x: np.arctan2(x[..., 1], x[..., 0])
    start = ms.Density.from_function(lambda x: 1 + size * np.cos(mode * angle(x) + phase), dim)
    normalized = bool(rng.integers(2))
    field: Any = ms.SelfAttention(_beta(rng, 8.0 if normalized else 3.0), normalized=normalized)
    if rng.integers(2):
        field = field + ms.Noise(float(rng.uniform(3, 60)))
    return _flow(start, field, 2.0 if normalized else 0.4, frames=41)


def _gaussian(rng: Rng) -> Trajectory:
    d = int(rng.choice([1, 2, 4]))
    root = _matrix(rng, d)
    start = ms.Gaussian(rng.normal(size=d), root @ root.T + 0.1 * np.eye(d))
    general = rng.integers(2)
    value = _matrix(rng, d) if general else None
    field = ms.SelfAttention(float(rng.uniform(0.2, 1.0)), _matrix(rng, d), _matrix(rng, d), value)
    if rng.random() < 0.3:
        return _flow(start, field, 2.0, stepper=ms.Layers(0.1))
    return _flow(start, field, 1.0, frames=41)


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
    "pure attention in R^d": _rescaled,
    "schedule": _schedule,
    "layers": _layers,
    "equal steps": _fixed,
    "merging": _merging,
    "hardmax": _hardmax,
    "density": _density,
    "Gaussian": _gaussian,
}


def alarms(pages: int, state: Path, only: list[str]) -> None:
    """Honest runs: one line a page with its rows."""
    kinds = only or list(KINDS)
    each = -(-pages // len(KINDS))
    for kind in kinds:
        path = state / "alarms" / f"{list(KINDS).index(kind):02d}.jsonl"
        done = _lines(path)
        for number in range(len(done), each):
            rng = np.random.default_rng([7, list(KINDS).index(kind), number])
            began = time.perf_counter()
            run = KINDS[kind](rng)
            flown = time.perf_counter() - began
            page = ms.compare(run)
            seconds = time.perf_counter() - began - flown
            rows = [
                [
                    row.claim,
                    row.verdict,
                    _number(row.expected),
                    _number(row.observed),
                    row.tolerance,
                ]
                for row in page.rows
            ]
            wrong = [row[0] for row in rows if row[1] == DISAGREE]
            if wrong:
                print(f"{kind} {number}: {wrong} {run.frames[0]!r} {run.field!r}", flush=True)
            _append(
                path, {"kind": kind, "page": number, "rows": rows, "run": flown, "compare": seconds}
            )
        said = [row for page in _lines(path) for row in page["rows"]]
        tested = sum(row[1] != NOT_APPLICABLE for row in said)
        false = sum(any(row[1] == DISAGREE for row in page["rows"]) for page in _lines(path))
        print(
            f"{kind:24s} {each} pages, {tested} rows tested, {false} pages with a false alarm",
            flush=True,
        )


def _tokens(rng: Rng) -> Trajectory:
    """A run in which something happens: uniform tokens, β in 3 … 20."""
    start = ms.uniform(*SIZES[rng.integers(len(SIZES) - 1)], seed=_seed(rng))
    return _flow(start, ms.SelfAttention(float(rng.uniform(3, 20))), float(rng.choice([6.0, 20.0])))


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
    later = _flow(
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
    start = ms.uniform(*SIZES[rng.integers(len(SIZES) - 1)], seed=_seed(rng))
    return _flow(
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
    start = ms.uniform(*SIZES[rng.integers(5)], seed=_seed(rng))
    kappa = float(rng.uniform(10, 100))
    head = ms.SelfAttention(float(rng.uniform(3, 10)))
    run = ms.flow(start, head + ms.Noise(kappa), 15.0, seed=_seed(rng), sum=Dense(), progress=False)
    return dataclasses.replace(
        run, field=head + ms.Noise(kappa * float(rng.choice([1.5, 1 / 1.5])))
    )


def _gaussian_off(rng: Rng) -> Trajectory:
    run = _gaussian(rng)
    name = str(rng.choice(["query", "key", "value"]))
    old = getattr(run.field, name)
    matrices = {n: getattr(run.field, n) for n in ("query", "key", "value")}
    matrices[name] = 1.01 * (np.eye(run.frames[0].dim) if old is None else np.asarray(old))
    return dataclasses.replace(run, field=ms.SelfAttention(run.field.beta, **matrices))


def _placement_off(rng: Rng) -> Trajectory:
    names = [name for name in PLACEMENTS if name != "mix"]
    first, second = rng.choice(len(names), 2, replace=False)
    kinds = [ms.PostNorm(), ms.PreNorm(), ms.PeriNorm(), ms.NGPT(0.7), ms.DepthSqrt()]
    run = _placement(names[first])(rng)
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
    "mask dropped": _relabelled(_causal, lambda f, _: ms.SelfAttention(f.beta)),
    "a head dropped": _relabelled(_heads, lambda f, _: ms.MultiHead(f.heads[:1], f.outputs[:1])),
    "placement mislabelled": _placement_off,
    "layers, β ± 1 %": _relabelled(_layers, _heat(1.01)),
    "merging, β ± 5 %": _relabelled(_merging, _heat(1.05)),
    "density, β ± 1 %": _relabelled(_density, _heat(1.01)),
    "Gaussian, Q, K or V off by 1 %": _gaussian_off,
    "noise claimed and absent": _noise_absent,
    "κ off by 1.5": _noise_off,
}


def power(runs: int, state: Path, only: list[str]) -> None:
    """Planted errors: how many of the runs carry a row that disagrees."""
    for number, (name, plant) in enumerate(PLANTS.items()):
        if only and name not in only:
            continue
        path = state / "power" / f"{number:02d}.jsonl"
        for k in range(len(_lines(path)), runs):
            page = ms.compare(plant(np.random.default_rng([13, number, k])))
            rows = [row.claim for row in page.rows if row.verdict == DISAGREE]
            if not rows:
                print(f"{name} {k}: missed", flush=True)
            _append(path, {"plant": name, "run": k, "rows": rows})
        caught = sum(bool(line["rows"]) for line in _lines(path))
        print(f"{name:36s} caught {caught} of {runs}", flush=True)


def table(state: Path) -> None:
    """The tables of docs/verdicts.md, as Markdown on stdout."""
    print("| kind | pages | rows tested | pages with a false alarm | compare / run |")
    print("|---|---|---|---|---|")
    total = [0, 0]
    for number, kind in enumerate(KINDS):
        pages = _lines(state / "alarms" / f"{number:02d}.jsonl")
        if not pages:
            continue
        tested = sum(row[1] != NOT_APPLICABLE for page in pages for row in page["rows"])
        false = sum(any(row[1] == DISAGREE for row in page["rows"]) for page in pages)
        ratio = float(np.median([page["compare"] / max(page["run"], 1e-9) for page in pages]))
        total = [total[0] + len(pages), total[1] + false]
        print(f"| {kind} | {len(pages)} | {tested} | {false} | {ratio:.2g} |")
    print(f"| **all** | {total[0]} | | {total[1]} | |\n\n| planted error | caught |\n|---|---|")
    for number, name in enumerate(PLANTS):
        lines = _lines(state / "power" / f"{number:02d}.jsonl")
        if lines:
            print(f"| {name} | {sum(bool(line['rows']) for line in lines)} of {len(lines)} |")


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, float | int | np.floating | np.integer) else str(value)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _append(path: Path, entry: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["alarms", "power", "table"])
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--state", type=Path, default=Path("out/verdicts"))
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    if given.what == "alarms":
        alarms(given.pages, given.state, given.only)
    elif given.what == "power":
        power(given.runs, given.state, given.only)
    else:
        table(given.state)


if __name__ == "__main__":
    main()
