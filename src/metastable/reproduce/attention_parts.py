"""The pieces of a transformer, as formulas: attention, heads, positions, symmetry, relatives."""

from __future__ import annotations

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import Krause, Kuramoto, MultiHead, SelfAttention
from metastable.flows import flow
from metastable.measures import Points, uniform
from metastable.measures.starts import encoding
from metastable.observe import attention, clusters
from metastable.reproduce.finding import Finding, holds
from metastable.sphere import project

__all__ = [
    "activation_signs",
    "krause_clusters",
    "kuramoto_limit",
    "likelihood_logarithm",
    "many_heads",
    "permutations",
    "positions",
    "self_attention",
]


def self_attention(*, tokens: int, dim: int, beta: float) -> Finding:
    """The attention matrix as printed, and as it must be for rows to be probabilities."""
    from metastable.report.plots import draw_image

    random = np.random.default_rng(0)
    query, key, value = random.normal(size=(3, dim, dim)) / np.sqrt(dim)
    start = uniform(tokens, dim, seed=1)
    x = np.asarray(start.points)
    logits = beta * (x @ query.T) @ (x @ key.T).T  # ⟨Qx_i, Kx_j⟩
    z = np.exp(logits).sum(axis=1)
    printed = np.exp(np.diag(logits))[None, :] / z[:, None]  # ⟨Qx_j, Kx_j⟩, as printed
    right = np.asarray(attention(start, beta, query, key))
    velocity = np.asarray(SelfAttention(beta, query, key, value).velocity(start))
    from_rows = np.asarray(project(start.points, right @ x @ value.T))
    rows = [
        judge("rows of the printed matrix sum to one: largest error", "definition after Figure 5",
              0.0, float(np.abs(printed.sum(axis=1) - 1).max()), absolute=1e-12),
        judge("the same with Qx_i in the logits", "equation 8", 0.0,
              float(np.abs(right.sum(axis=1) - 1).max()), absolute=1e-12),
        judge("its rows give the velocity: largest error", "equation 8", 0.0,
              float(np.abs(velocity - from_rows).max()), absolute=1e-12),
    ]  # fmt: skip
    figure = draw_image(
        right, (-0.5, tokens - 0.5, -0.5, tokens - 0.5), "token j", "token i", "attention A_ij",
        f"Attention of {tokens} random tokens, β = {beta:g}; each row is a probability.",
    )  # fmt: skip
    return Finding(rows, {"matrix": figure})


def many_heads(*, tokens: int, dim: int, beta: float, heads: int) -> Finding:
    """Concatenated heads with an output matrix are a sum of heads."""
    from metastable.report.plots import draw_bars

    random = np.random.default_rng(2)
    width = dim // heads
    query, key, value = random.normal(size=(3, heads, width, dim)) / np.sqrt(dim)
    output = random.normal(size=(dim, heads * width)) / np.sqrt(dim)
    start = uniform(tokens, dim, seed=3)
    x = np.asarray(start.points)
    each, total = [], []
    for h in range(heads):
        a = np.asarray(attention(start, beta, query[h], key[h]))
        each.append(a @ x @ value[h].T)
        full = output[:, h * width : (h + 1) * width] @ value[h]
        total.append(SelfAttention(beta, query[h], key[h], full))
    concatenated = np.concatenate(each, axis=1) @ output.T
    summed = np.asarray(MultiHead(total).velocity(start))
    off = float(np.abs(summed - np.asarray(project(start.points, concatenated))).max())
    sizes = [float(np.linalg.norm(np.asarray(head.velocity(start)))) for head in total]
    rows = [
        judge("Concat(head_1, …, head_h)W^O against the sum over heads: largest error",
              "Figure 6, equation 12", 0.0, off, absolute=1e-12),
    ]  # fmt: skip
    figure = draw_bars(
        [f"{h + 1}" for h in range(heads)], {"speed": sizes}, "head", "‖velocity of its part‖",
        f"What each of {heads} heads adds, {tokens} tokens, d = {dim}.",
    )  # fmt: skip
    return Finding(rows, {"heads": figure})


def positions(*, tokens: int, dim: int, base: float) -> Finding:
    """Sinusoidal positions: which coordinates the printed range of k reaches."""
    from metastable.report.plots import draw_image, draw_lines

    p = np.asarray(encoding(tokens, dim, base))
    reached = sorted({2 * k + r for k in range(1, dim // 2) for r in (0, 1)})
    # A shift by s turns every pair of coordinates by a fixed angle.
    step, worst = 5, 0.0
    for k in range(dim // 2):
        angle = step / base ** (2 * k / dim)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        pair = p[:, 2 * k : 2 * k + 2]
        worst = max(worst, np.abs(pair[step:] - pair[:-step] @ turn.T).max())
    products = p @ p.T * 2 / dim
    apart = np.abs(np.subtract.outer(np.arange(tokens), np.arange(tokens)))
    spread = max(np.ptp(products[apart == s]) for s in range(tokens))
    rows = [
        holds("k = 1 to d/2 − 1 gives every coordinate a position", "positional encoding",
              len(reached) == dim, f"{dim} coordinates", f"{len(reached)} coordinates"),
        judge("from k = 0 a shift is a rotation: largest error", "vaswani2017attention", 0.0,
              worst, absolute=1e-12),
        judge("inner products depend on the distance alone: largest spread",
              "vaswani2017attention", 0.0, float(spread), absolute=1e-12),
    ]  # fmt: skip
    image = draw_image(
        p, (-0.5, dim - 0.5, -0.5, tokens - 0.5), "coordinate", "position i", "p_i",
        f"Positions of {tokens} tokens in d = {dim}, M = {base:g}.",
    )  # fmt: skip
    line = draw_lines(
        {"⟨p_i, p_j⟩·2/d": (np.arange(tokens), products[0])}, "distance |i − j|", "similarity",
        "How alike two positions are.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"positions": image, "similarity": line})


def permutations(*, tokens: int, dim: int, beta: float, horizon: float) -> Finding:
    """Permuting the input permutes the output, unless tokens know their order."""
    from metastable.report.plots import draw_bars

    order = np.random.default_rng(4).permutation(tokens)
    start = uniform(tokens, dim, seed=5)
    mixed = Points(np.asarray(start.points)[order])
    gaps = {}
    for name, field in {
        "plain": SelfAttention(beta),
        "random Q, K, V": SelfAttention(
            beta, *(np.random.default_rng(6).normal(size=(3, dim, dim)) / np.sqrt(dim))
        ),
        "causal": SelfAttention(beta, causal=True),
    }.items():
        a, b = (np.asarray(flow(m, field, horizon, frames=2).points[-1]) for m in (start, mixed))
        gaps[name] = float(np.abs(a[order] - b).max())
    rows = [
        judge("f(πX) against πf(X), whole flow: largest error", "Definition 1", 0.0,
              max(gaps["plain"], gaps["random Q, K, V"]), absolute=1e-9),
        holds("a causal mask breaks it", "masked attention", gaps["causal"] > 1e-3, "differs",
              gaps["causal"]),
    ]  # fmt: skip
    figure = draw_bars(
        list(gaps), {"largest difference": [max(gap, 1e-17) for gap in gaps.values()]},
        "attention", "‖f(πX) − πf(X)‖", f"{tokens} tokens, d = {dim}, β = {beta:g}.",
    )  # fmt: skip
    figure.axes[0].set_yscale("log")
    return Finding(rows, {"differences": figure})


def krause_clusters(*, tokens: int, reach: float, seeds: int, horizon: float) -> Finding:
    """Krause's opinions with a kernel of bounded reach end in several clusters, out of reach."""
    from metastable.report.angles import draw_line

    counts, nearest, run = [], [], None
    for seed in range(seeds):
        start = Points(
            np.random.default_rng(seed).uniform(0, 6 * reach, (tokens, 1)), on_sphere=False
        )
        field = Krause(lambda s: (s < reach**2).astype(float))
        run = flow(start, field, horizon, frames=61)
        found = clusters(run.frames[-1], angle=1e-3 * reach)
        counts.append(found.count)
        places = np.sort(np.asarray(found.centres)[:, 0])
        nearest.append(np.diff(places).min() if len(places) > 1 else np.inf)
    assert run is not None
    rows = [
        holds("several clusters remain", "equation 11; jabin2014clustering", min(counts) > 1,
              "more than one", f"{min(counts)} to {max(counts)}"),
        holds("neighbours end out of each other's reach", "jabin2014clustering",
              min(nearest) >= reach, f"at least {reach:g}", min(nearest)),
    ]  # fmt: skip
    return Finding(rows, {"opinions": draw_line(run)})


def kuramoto_limit(*, tokens: int, horizon: float) -> Finding:
    """β = 0 on the circle is Kuramoto's model with equal oscillators."""
    from metastable.report.plots import draw_lines

    start = uniform(tokens, 2, seed=7)
    runs = [flow(start, field, horizon, frames=41) for field in (SelfAttention(0.0), Kuramoto(1.0))]
    size = [np.linalg.norm(run.points.mean(axis=1), axis=1) for run in runs]
    rows = [
        judge("attention at β = 0 against Kuramoto: largest distance of a token",
              "kuramoto1975self", 0.0, float(np.abs(runs[0].points - runs[1].points).max()),
              absolute=1e-7),
    ]  # fmt: skip
    figure = draw_lines(
        {"attention, β = 0": (runs[0].times, size[0])}, "time t (SA clock)",
        "order parameter", f"{tokens} oscillators that synchronise.",
        theory={"Kuramoto": (runs[1].times, size[1])},
    )  # fmt: skip
    return Finding(rows, {"order": figure})


def likelihood_logarithm(*, share: float, samples: int) -> Finding:
    """What maximising the printed sum of probabilities gives, and what likelihood gives."""
    from metastable.report.plots import draw_lines

    seen = np.random.default_rng(8).random(samples) < share
    theta = np.linspace(0.001, 0.999, 999)
    ones = seen.mean()
    printed = ones * theta + (1 - ones) * (1 - theta)
    proper = ones * np.log(theta) + (1 - ones) * np.log(1 - theta)
    best = [float(theta[curve.argmax()]) for curve in (printed, proper)]
    rows = [
        judge("maximiser of Σ p_θ(x_i | context)", "equation 4", ones, best[0], absolute=0.002),
        judge("maximiser of Σ log p_θ(x_i | context)", "maximum likelihood", ones, best[1],
              absolute=0.002),
    ]  # fmt: skip
    scaled = lambda curve: (curve - curve.min()) / np.ptp(curve)
    figure = draw_lines(
        {"Σ p, as printed": (theta, scaled(printed)),
         "Σ log p": (theta, scaled(np.maximum(proper, np.quantile(proper, 0.1))))},
        "θ = p(heads)", "objective, scaled to [0, 1]", lines=True,
        caption=f"A coin that shows heads in {ones:.3f} of {samples} throws.",
        marks={"share of heads": ones},
    )  # fmt: skip
    return Finding(rows, {"objectives": figure})


def activation_signs() -> Finding:
    """Softplus as printed falls; with the right sign it is a smooth ReLU."""
    from metastable.report.plots import draw_lines

    x = np.linspace(-6, 6, 241)
    printed, right, relu = np.log1p(np.exp(-x)), np.log1p(np.exp(x)), np.maximum(x, 0)
    far = lambda f: float(np.abs(f - relu).max())
    rows = [
        holds("softplus log(1 + e^(−x)) is a smooth ReLU: it grows", "equation 24",
              np.diff(printed).min() > 0, "grows", "falls" if np.diff(printed).max() < 0 else "?"),
        judge("log(1 + e^x): largest distance from ReLU", "log 2 at 0", np.log(2), far(right),
              absolute=1e-12),
    ]  # fmt: skip
    figure = draw_lines(
        {"as printed": (x, printed), "log(1 + e^x)": (x, right), "ReLU": (x, relu)}, "x", "f(x)",
        "Activations.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"activations": figure})
