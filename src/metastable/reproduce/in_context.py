"""Attention as a map that depends on a measure: definitions, composition, continuity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import softmax

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.learn.incontext import (
    Attention,
    MultiHeadAttention,
    Perceptron,
    continuity_bound,
)
from metastable.measures import Points
from metastable.observe.distances import wasserstein
from metastable.reproduce.finding import Finding, holds

__all__ = ["attention_formula", "in_context_maps", "weak_convergence"]


def attention_formula(*, tokens: int, dim: int, keys: int, heads: int, seed: int) -> Finding:
    """The matrix formula as printed, its columns normalised, and the sum over tokens."""
    from metastable.report.plots import draw_bars

    random = np.random.default_rng(seed)
    query, key, value, output = arrays = _heads(random, heads, keys, dim)
    x = random.normal(size=(tokens, dim))
    by_sum = np.asarray(MultiHeadAttention(query, key, value, output)(Points(x, on_sphere=False)))
    found = {}
    for name, axis in (("softmax of rows, as printed", 1), ("softmax of columns", 0)):
        total = x.T.copy()  # one token a column, as in the document
        for q, k, v, w in zip(*arrays, strict=True):
            for_token = (k @ x.T).T @ (q @ x.T)  # entry (j, i): ⟨Kx_j, Qx_i⟩
            pattern = for_token.T if axis == 1 else for_token  # XᵀQᵀKX, or its transpose
            total += w @ (v @ x.T) @ softmax(pattern / math.sqrt(keys), axis=axis)
        found[name] = np.abs(total.T - by_sum).max(axis=1)
    pattern = softmax(random.normal(size=(tokens, tokens)), axis=1)
    rows = [
        judge("MAtt(X) of equation 1.2.1 against its tokens A(X, x_i) of 2.1.1: largest error",
              "equations 1.2.1 and 2.1.1", 0.0,
              float(found["softmax of rows, as printed"].max()), absolute=1e-10),
        judge("the same with XᵀKᵀQX and columns that sum to one", "equation 2.1.1", 0.0,
              float(found["softmax of columns"].max()), absolute=1e-10),
        holds("on the left, VX meets rows of the pattern whose columns do not sum to one",
              "section 1.2.1", np.abs(pattern.sum(axis=0) - 1).max() > 0.1, "sums differ from 1",
              float(np.abs(pattern.sum(axis=0) - 1).max())),
    ]  # fmt: skip
    figure = draw_bars(
        [str(i + 1) for i in range(tokens)],
        {name: np.maximum(off, 1e-17).tolist() for name, off in found.items()},
        "token", "largest difference",
        f"Two readings of the matrix formula against the sum over tokens, {heads} heads, "
        f"d = {dim}, d_k = {keys}.",
    )  # fmt: skip
    figure.axes[0].set(yscale="log", ylim=(1e-17, 1e6))  # room for the legend
    return Finding(rows, {"differences": figure})


def in_context_maps(*, tokens: int, places: int, dim: int, heads: int, seed: int) -> Finding:
    """Definitions written out, both bracketings of ⋄, push-forward, masks, copies of tokens."""
    from metastable.report.plots import draw_bars

    random = np.random.default_rng(seed)
    x, w = random.normal(size=(tokens, dim)), random.dirichlet(np.ones(tokens))
    when = random.integers(0, 4, tokens) / 3
    measure, at = Points(x, w, when, on_sphere=False), random.normal(size=(places, dim))
    now = np.linspace(0.25, 1, places)
    off: dict[str, dict[str, float]] = {}
    for name, causal in (("plain", False), ("masked", True)):
        arrays = [_heads(random, heads, 1, dim) for _ in range(2)]
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
            "definition": _largest(first(measure, at, t), written),
            "step by step": _largest(plain, steps),
            "associative": _largest(plain, right(measure, at, t)),
            "push-forward": abs(float(np.asarray(pushed.weights) @ test(pushed.points)
                                      - w @ test(own))),
            "copies": _largest(first(measure, at, t), first(copies, at, t)),
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
    figure = draw_bars(
        names, {k: [max(off[k][name], 1e-17) for name in names] for k in off}, "identity",
        "largest difference", f"Identities of in-context maps, {tokens} tokens, {heads} heads, "
        f"d = {dim}.", size=(5.4, 3.3),
    )  # fmt: skip
    figure.axes[0].set(yscale="log", ylim=(1e-18, 1e-13))  # room for the legend
    return Finding(rows, {"identities": figure})


def weak_convergence(*, tokens: int, terms: int, seed: int) -> Finding:
    """Measures may converge while their lists of tokens do not; attention follows the measures."""
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (tokens, 1))
    limit = Points(x, on_sphere=False)
    beta, q, k, v = 1.0, [[0.7]], [[0.5]], [[1.3]]
    gamma, at = Attention(SelfAttention(beta, q, k, v)), np.linspace(-1, 1, 9)[:, None]
    lists, measures, images = [], [], []
    for step in range(terms):
        moved = x + 0.5**step * random.uniform(-0.5, 0.5, x.shape)
        shuffled = np.clip(moved, -1, 1)[random.permutation(tokens)]
        here = Points(shuffled, on_sphere=False)
        lists.append(float(np.abs(shuffled - x).max()))
        measures.append(wasserstein(here, limit, order=1))
        images.append(_largest(gamma(here, at), gamma(limit, at)))
    bound = continuity_bound(beta, q, k, v, 1.0)
    ratio = max(a / b for a, b in zip(images, measures, strict=True))
    rows = [
        holds("where the measures converge the lists of tokens do too: last ‖X_k − X‖",
              "Definition A.2", lists[-1] < 1e-3, "tends to 0", lists[-1]),
        holds("the measures converge: last W_1", "weak convergence on a compact set",
              measures[-1] < 1e-3, "tends to 0", measures[-1]),
        holds("attention depends on the measure continuously: |Γ(μ_k, x) − Γ(μ, x)|/W_1",
              "derived", ratio <= bound, f"at most {bound:.3g}", ratio),
    ]  # fmt: skip
    terms_at = np.arange(terms)
    figure = draw_lines(
        {"largest |x_i,k − x_i|": (terms_at, lists), "W_1": (terms_at, measures),
         "change of attention": (terms_at, images)},
        "k", "distance from the limit",
        f"{tokens} tokens on the line that converge as a measure, in a new order each time.",
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"distances": figure})


def _heads(random: np.random.Generator, heads: int, keys: int, dim: int) -> list[np.ndarray]:
    """Query, key, value and output matrices, stacked."""
    shapes = ((heads, keys, dim), (heads, keys, dim), (heads, keys, dim), (heads, dim, keys))
    return [0.7 * random.normal(size=shape) for shape in shapes]


def _written(heads: Any, x: Any, w: Any, at: Any, times: Any, now: Any) -> np.ndarray:
    """Γ(μ, x, t) as the document defines it, one place and one head at a time."""
    images = np.array(at, float)
    for i, place in enumerate(at):
        for q, k, v, o in zip(*heads, strict=True):
            e = w * (times <= now[i]) * np.exp((x @ k.T) @ (q @ place) / math.sqrt(len(q)))
            images[i] += o @ (e @ (x @ v.T) / e.sum()) if e.sum() > 0 else 0.0
    return images


def _largest(one: Any, two: Any) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(two)).max())
