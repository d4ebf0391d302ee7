"""Attention as a map that depends on a measure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.measures import Points
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._attention_checks import largest_difference, random_heads
from ._in_context_maps import MultiHeadAttention, Perceptron

ENTRY = Entry(
    title="Attention as a map that depends on a measure",
    places=["section 2.1", "Definition A.1", "equation 2.1.7", "equation 2.1.10"],
    claim=(
        "Attention on a measure is a map Γ(μ, x); layers compose by ⋄, the next one seeing "
        "the push-forward of the last, with or without a mask, and tokens are the special "
        "case of empirical measures."
    ),
    method=(
        "Integrals written out in NumPy, both bracketings of a composition, test functions "
        "under the push-forward, tokens split into copies, and a changed future under the "
        "mask."
    ),
    subject="networks",
    basis="text",
    limits="Nine random tokens in d = 3 and two heads; identities, with and without a mask.",
    planted="Points.points * 1.1",
    settings={"tokens": 9, "places": 6, "dim": 3, "heads": 2, "seed": 0},
)


def in_context_maps(*, tokens: int, places: int, dim: int, heads: int, seed: int) -> Finding:
    """Definitions written out, both bracketings of ⋄, push-forward, masks, copies of tokens."""
    random = np.random.default_rng(seed)
    x, w = random.normal(size=(tokens, dim)), random.dirichlet(np.ones(tokens))
    when = random.integers(0, 4, tokens) / 3
    measure, at = Points(x, w, when, on_sphere=False), random.normal(size=(places, dim))
    now = np.linspace(0.25, 1, places)
    off: dict[str, dict[str, float]] = {}
    for name, causal in (("plain", False), ("masked", True)):
        arrays = [random_heads(random, heads, 1, dim) for _ in range(2)]
        first, third = (MultiHeadAttention(*one, causal=causal) for one in arrays)
        hidden = random.normal(size=(5, dim)), random.normal(size=(dim, 5)) / 2
        second = Perceptron(hidden, (random.normal(size=5), random.normal(size=dim)))
        t = now if causal else None
        written = _written(arrays[0], x, w, at, when, now if causal else np.full(places, 2.0))
        moved, steps = measure, at
        for gamma in (first, second, third):
            moved, steps = gamma.push(moved), gamma(moved, steps, t)
        left, right = (third @ second) @ first, third @ (second @ first)
        plain = np.asarray(left(measure, at, t))
        shares = np.array([0.2, 0.5, 0.3])
        copies = Points(
            np.repeat(x, 3, 0), np.outer(w, shares).ravel(), np.repeat(when, 3), on_sphere=False
        )
        test = lambda z: np.cos(np.asarray(z)).prod(axis=1)
        pushed = first.push(measure)
        own = _written(arrays[0], x, w, x, when, when if causal else np.full(tokens, 2.0))
        off[name] = {
            "definition": largest_difference(first(measure, at, t), written),
            "step by step": largest_difference(plain, steps),
            "associative": largest_difference(plain, right(measure, at, t)),
            "push-forward": abs(float(np.asarray(pushed.weights) @ test(pushed.points)
                                      - w @ test(own))),
            "copies": largest_difference(first(measure, at, t), first(copies, at, t)),
        }  # fmt: skip
    late = x.copy()
    late[when > 0.5] += 1.0  # the future changes
    early = now <= 0.5
    changed = first(Points(late, w, when, on_sphere=False), at, now)
    leak = float(np.abs(np.asarray(changed - first(measure, at, now)))[early].max(initial=0.0))
    both = lambda key: max(off["plain"][key], off["masked"][key])
    rows = [
        judge("Γ(μ, x) and Γ(μ, x, t) against their integrals written out: largest error",
              "equations 2.1.1, 2.1.2, 2.1.7 and 2.1.10", 0.0, both("definition"),
              absolute=1e-10),
        judge("Γ_3 ⋄ F ⋄ Γ_1 against one map after another", "equations 2.1.4 to 2.1.6, 2.1.11",
              0.0, both("step by step"), absolute=1e-10),
        judge("⋄ is associative", "equation 2.1.6", 0.0, both("associative"), absolute=1e-10),
        judge("∫ φ d(Γ_#μ) = ∫ φ(Γ(μ, x)) dμ", "Definition A.1", 0.0, both("push-forward"),
              absolute=1e-10),
        judge("each token split into three of the same mass: nothing changes", "equation 2.1.8",
              0.0, both("copies"), absolute=1e-10),
        judge("masked: the future changes nothing before it", "section 1.2.3", 0.0, leak,
              absolute=1e-14),
    ]  # fmt: skip
    names = list(off["plain"])
    figure = plot_bars(
        names, {k: [max(off[k][name], 1e-17) for name in names] for k in off}, "identity",
        Axis("largest difference", scale="log", limits=(1e-18, 1e-13)),
        f"Identities of in-context maps, {tokens} tokens, {heads} heads, "
        f"d = {dim}.", size=(5.4, 3.3),
    )  # fmt: skip
    return Finding(rows, {"identities": figure})


def _written(heads: Any, x: Any, w: Any, at: Any, times: Any, now: Any) -> np.ndarray:
    """Γ(μ, x, t) as the document defines it, one place and one head at a time."""
    images = np.array(at, float)
    for i, place in enumerate(at):
        for q, k, v, o in zip(*heads, strict=True):
            e = w * (times <= now[i]) * np.exp((x @ k.T) @ (q @ place) / math.sqrt(len(q)))
            images[i] += o @ (e @ (x @ v.T) / e.sum()) if e.sum() > 0 else 0.0
    return images
