"""The talk on flows of tokens: symmetric starts, metastable clusters on the sphere, many heads."""

from __future__ import annotations

import math

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import MultiHead, SelfAttention
from metastable.flows import flow
from metastable.flows.staircase import Merge
from metastable.measures import Points, uniform
from metastable.observe import clusters, energy
from metastable.observe.basins import find_equilibria
from metastable.observe.equilibria import Share
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.talk_counts import periodic
from metastable.theory.pairs import log_merge_time
from metastable.theory.ring import ring_rates

__all__ = [
    "sphere_movie",
    "stable_heads",
    "symmetric_start",
]


def symmetric_start(*, beta: float, copies: int, each: int, horizon: float) -> Finding:
    """Tokens in k equal sectors stay so, end in k clusters, and these clusters are a saddle."""
    from metastable.report.angles import draw_angles

    field = SelfAttention(beta)
    run = flow(periodic(copies, each, 0.0, seed=0), field, horizon, frames=61)
    step = 2 * np.pi / copies
    turn = np.array([[np.cos(step), -np.sin(step)], [np.sin(step), np.cos(step)]])
    off = max(
        np.abs(np.roll(np.asarray(x.points), -each, axis=0) - x.points @ turn.T).max()
        for x in run.frames
    )
    last = run.frames[-1]
    count = clusters(last, angle=1e-3).count
    # Mode p displaces cluster q by cos(2πpq/k); the fastest one is followed for an e-folding time.
    rates = ring_rates(beta, copies)
    fastest, p = float(rates.max()), int(rates.argmax()) + 1
    q = np.arange(copies)
    pushed = Points(_unit(step * q + 1e-5 * np.cos(step * p * q)))
    later = flow(pushed, field, 1 / fastest, frames=2).frames[-1]
    shift = [np.unwrap(_angles(x) - step * q) for x in (pushed, later)]
    size = [np.linalg.norm(s - s.mean()) for s in shift]
    rows = [
        judge(f"turned by 1/{copies} of the circle tokens fall on tokens: worst error, any time",
              "symmetric start on the circle", 0.0, float(off), absolute=1e-9),
        holds("clusters at the end", "symmetric start on the circle", count == copies, copies,
              count),
        judge("they are at rest: largest speed", "fixed point by symmetry", 0.0,
              float(np.abs(field.velocity(last)).max()), absolute=1e-7),
        judge("but unstable: rate at which a displaced ring leaves (SA clock)",
              "clustering theorem: all other fixed points are saddles; ring of k clusters", fastest,
              float(math.log(size[1] / size[0]) * fastest), relative=1e-3),
    ]  # fmt: skip
    return Finding(rows, {"angles": draw_angles(run)})


def sphere_movie(*, tokens: int, beta: float, horizon: float, seed: int) -> Finding:
    """Uniform tokens on S²: clusters that form fast, last long, merge one by one into the last."""
    from metastable.report.animation import animate
    from metastable.report.globe import draw_strip
    from metastable.report.plots import draw_lines

    field = SelfAttention(beta)
    run = flow(uniform(tokens, 3, seed), field, horizon, frames=61)
    whole = flow(uniform(tokens, 3, seed), field, math.inf, merge=Merge(), frames=101)
    levels = np.array([float(energy(x, beta, scaled=True)) for x in run.frames])
    events = whole.mergers
    assert events is not None
    several = clusters(run.frames[-1], beta)
    # Times between mergers of the last few clusters, and how long those took to form.
    few = events.counts < several.count
    formed, waits = float(events.times[~few][-1]), np.exp(events.log_waits[few])
    two = next(x for x in whole.frames if x.count == 2)
    a, b = np.asarray(two.points)
    angle = 2 * math.asin(float(np.linalg.norm(a - b)) / 2)
    last = events[-1]
    foretold = log_merge_time(
        angle, beta, until=last.angle, masses=tuple(np.asarray(two.weights).tolist())
    )
    rows = [
        holds(f"clusters at t = {horizon:g}: several, each tight", "first moving picture",
              several.count > 1 and several.radii.max() < 0.5 / math.sqrt(beta),
              "more than one, radius below half the kernel's width",
              f"{several.count}, radius {several.radii.max():.1e}"),
        holds("longest wait between two of their mergers, over the time they took to form",
              "kind of fixed on the time scale of this experiment", waits.max() > 5 * formed,
              "above 5", float(waits.max() / formed)),
        holds("in the end one cluster", "clustering theorem", whole.frames[-1].count == 1, 1,
              whole.frames[-1].count),
        judge("logarithm of the wait of the last two (SA clock), from their angle and masses",
              "two clusters, one quadrature", foretold, float(last.log_wait), absolute=1e-4),
        holds("the energy never falls", "gradient flow", bool((np.diff(levels) > -1e-12).all()),
              "grows", f"smallest step {np.diff(levels).min():.1e}"),
    ]  # fmt: skip
    strip = draw_strip(run)
    left = np.array([x.count for x in whole.frames])
    steps = draw_lines(
        {"tokens left": (whole.times[1:], left[1:])}, "time t (SA clock)", "places", log="xy",
        lines=True, caption=f"{tokens} tokens on S², β = {beta:g}, merged where they have met.",
    )  # fmt: skip
    movie = lambda path, frames: animate(run, path, frames=frames)
    return Finding(rows, {"strip": strip, "staircase": steps}, movies={"sphere": movie})


def stable_heads(
    *, tokens: int, dim: int, starts: int, betas: list[float], outputs: list[float]
) -> Finding:
    """Several heads have stable states of several clusters; one head has none."""
    from metastable.report.plots import draw_bars

    heads = [SelfAttention(beta) for beta in betas]
    several = MultiHead(heads, outputs=list(outputs))
    # One head is the sum with the others switched off: the same compiled search serves both.
    alone = MultiHead(heads, outputs=[outputs[0], *(0.0 for _ in outputs[1:])])
    found = {
        name: find_equilibria(field, tokens, dim, starts)
        for name, field in (("one head", alone), ("several heads", several))
    }
    counts = {
        name: np.bincount(
            [one.groups.count for one in states for _ in range(one.share.hits if one.share else 0)],
            minlength=tokens + 1,
        )
        for name, states in found.items()
    }
    share = Share(int(counts["several heads"][2:].sum()), starts)
    random, far = np.random.default_rng(0), math.inf
    for one in found["several heads"][:1]:
        x = np.asarray(one.measure.points)
        kicked = x + 0.02 * random.standard_normal(x.shape)
        kicked = Points(kicked / np.linalg.norm(kicked, axis=1, keepdims=True))
        back = np.asarray(flow(kicked, several, 25 / -one.rate, frames=2).frames[-1].points)
        far = float(np.abs(back @ back.T - x @ x.T).max())
    most = int(np.flatnonzero(counts["several heads"]).max(initial=1))
    rows = [
        holds("share of random starts that end in several clusters, several heads",
              "discussion after the talk", share.interval[0] > 0.5, "most of them", repr(share)),
        judge("share that end in one cluster, one head", "clustering theorem", 1.0,
              float(counts["one head"][1] / starts), absolute=0.0),
        judge("its commonest end, kicked by 0.02, comes back: largest error of inner products",
              "locally stable", 0.0, far, absolute=1e-6),
    ]  # fmt: skip
    places = list(range(1, most + 1))
    figure = draw_bars(
        places, {name: (seen[1 : most + 1] / starts).tolist() for name, seen in counts.items()},
        "clusters at the end", "share of starts",
        f"{starts} starts of {tokens} tokens on S^{dim - 1}; heads β = {betas} with weights "
        f"{outputs}, and the first alone.",
    )  # fmt: skip
    return Finding(rows, {"ends": figure})


def _unit(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _angles(measure: Points) -> np.ndarray:
    x = np.asarray(measure.points)
    return np.arctan2(x[:, 1], x[:, 0])
