"""Universality: a transformer on measures, and a sigmoid network built lemma by lemma."""

from __future__ import annotations

import numpy as np

from metastable.comparison.verdict import judge
from metastable.learn.measure_transformer import (
    MeasureTransformer,
    generalization,
    train_on_measures,
)
from metastable.learn.separation import separate, sigmoid, threshold
from metastable.learn.sigmoid_network import SigmoidNetwork, approximate, certify
from metastable.reproduce.finding import Finding, holds

__all__ = ["closed_network_classes", "four_layer_network", "number_of_tokens", "separating_sets"]


def number_of_tokens(
    *, trained: int, counts: list[int], steps: int, batch: int, depth: int, measures: int
) -> Finding:
    """A transformer on measures trained at one number of tokens and used at others."""
    from metastable.report.universality import draw_generalization

    start = MeasureTransformer.create(dim=1, outputs=3, depth=depth)
    made = train_on_measures(start, tokens=trained, steps=steps, batch=batch, progress=False)
    network = made.parameters
    result = generalization(network, sorted([trained, *counts]), measures=measures)
    before = generalization(start, [trained], measures=measures)
    here = result.counts == trained
    at, others = float(result.total[here][0]), result.total[~here]
    heads = max(layer.query.shape[0] for layer in network.layers)
    width = max(layer.query.shape[2] for layer in network.layers)
    scalars = {layer.query.shape[1] for layer in network.layers}
    rows = [
        holds(
            f"error at {counts[-1]} tokens against that at the {trained} of the training",
            "Theorem 2.1; furuya2024transformers",
            others[-1] <= 1.2 * at, "at most 1.2 times", float(others[-1] / at),
        ),
        holds(f"worst of n = {', '.join(map(str, counts))}", "Theorem 2.1",
              others.max() <= 1.5 * at, "at most 1.5 times", float(others.max() / at)),
        holds("training has lowered the error", "the numbers above say nothing without it",
              at < 0.25 * before.total[0], "below a quarter of the start",
              f"{at:.4f} from {before.total[0]:.3f}"),
        holds("heads ≤ d′, d_k = d_v = 1, token dimension ≤ d + 3d′", "Theorem 2.1",
              heads <= 3 and scalars == {1} and width <= 10, "3, 1, 10",
              f"{heads}, {scalars.pop()}, {width}"),
    ]  # fmt: skip
    return Finding(rows, {"errors": draw_generalization(result, trained)})


def four_layer_network(*, tolerance: float, grid: int) -> Finding:
    """The 3/4 step of the proof, iterated to a tolerance and certified between grid points."""
    from metastable.report.universality import draw_approximation

    target = lambda x: x[:, 0] * x[:, 1]
    built = approximate(target, tolerance, grid=grid)
    network, errors = built.network, np.array(built.errors)
    proof = certify(network, target, 2**0.5, tolerance)
    random = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    seen = float(np.abs(network(random) - target(random)).max())
    rows = [
        holds(f"a network of N_4 within {tolerance:g} of xy on [−1, 1]², proved by cells",
              "Theorem 2.2", proof.bound <= tolerance, f"at most {tolerance:g}", proof.bound,
              f"{len(errors) - 1} steps, hidden layers of {', '.join(map(str, network.widths))}"),
        holds("each step leaves at most 3/4 of the error", "proof of Theorem 2.2",
              bool(np.all(errors[1:] <= 0.75 * errors[:-1] + 1e-12)), "at most 0.75",
              float((errors[1:] / errors[:-1]).max())),
        judge("hidden layers", "N_4", 3, len(network.widths), absolute=0),
        holds("largest error at 20 000 random points", "not used in the construction",
              seen <= proof.bound, "below the proved bound", seen),
    ]  # fmt: skip
    note = (
        "The proof is by contradiction and its infimum is unknown; the construction iterates its "
        "step, recentred so that neither of the two sets is empty."
    )
    return Finding(rows, {"network": draw_approximation(built, target)}, [note])


def closed_network_classes(*, inputs: int, hidden: int, points: int) -> Finding:
    """A layer can be passed on, and two networks of one depth add up to one of that depth."""
    from metastable.report.plots import draw_bars

    random = np.random.default_rng(0)
    at = random.normal(size=(points, inputs))

    def draw(*widths: int) -> SigmoidNetwork:
        sizes = [inputs, *widths, 1]
        pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
        return SigmoidNetwork(
            tuple(random.normal(size=pair) for pair in pairs),
            tuple(random.normal(size=rows) for rows, _ in pairs),
        )

    passed, summed = [], []
    for depth in (1, 2, 3):
        one, two = draw(*[hidden] * depth), draw(*[hidden + 1] * depth)
        # F = σ∘f is 0 + 1·F: one more layer with a single weight 1.
        longer = SigmoidNetwork((*one.weights, np.ones((1, 1))), (*one.biases, np.zeros(1)))
        passed.append(float(np.abs(longer(at) - sigmoid(one(at))).max()))
        a0, a1, a2 = random.normal(size=3)
        both = _added(one, two, a0, a1, a2)
        summed.append(float(np.abs(both(at) - (a0 + a1 * one(at) + a2 * two(at))).max()))
        assert len(both.widths) == depth
    rows = [
        judge("σ∘f of N_k^σ as a network of N_(k+1): largest difference", "Lemma 2.1", 0.0,
              max(passed), absolute=1e-12),
        judge("a_0 + a_1 g_1 + a_2 g_2 as one network of the same depth: largest difference",
              "Lemma 2.2", 0.0, max(summed), absolute=1e-11),
    ]  # fmt: skip
    figure = draw_bars(
        ["k = 1", "k = 2", "k = 3"],
        {"Lemma 2.1": np.maximum(passed, 1e-17).tolist(),
         "Lemma 2.2": np.maximum(summed, 1e-17).tolist()},
        "hidden layers", "largest difference",
        f"Networks put together, against the functions they stand for, at {points} points.",
    )  # fmt: skip
    figure.axes[0].set_yscale("log")
    return Finding(rows, {"differences": figure})


def _added(
    one: SigmoidNetwork, two: SigmoidNetwork, a0: float, a1: float, a2: float
) -> SigmoidNetwork:
    """One network for a_0 + a_1·one + a_2·two: layers side by side, joined in the last."""
    weights, biases = [np.vstack([one.weights[0], two.weights[0]])], []
    for left, right in zip(one.weights[1:-1], two.weights[1:-1], strict=True):
        rows, columns = left.shape
        block = np.zeros((rows + len(right), columns + right.shape[1]))
        block[:rows, :columns], block[rows:, columns:] = left, right
        weights.append(block)
    weights.append(np.hstack([a1 * one.weights[-1], a2 * two.weights[-1]]))
    biases = [np.concatenate(pair) for pair in zip(one.biases[:-1], two.biases[:-1], strict=True)]
    biases.append(a0 + a1 * one.biases[-1] + a2 * two.biases[-1])
    return SigmoidNetwork(tuple(weights), tuple(biases))


def separating_sets(*, grids: list[int], epsilon: float) -> Finding:
    """Points from points, a point from a set, a set from a set; and the finite covers between."""
    from metastable.report.plots import draw_image

    random = np.random.default_rng(0)
    # Lemma 2.3: two numbers.
    worst = 0.0
    for _ in range(200):
        x0, x1 = np.sort(random.normal(size=2))
        s, t = threshold(x0, x1, epsilon / 2, 1 - epsilon / 2)
        left = sigmoid(s + t * (x0 - np.abs(random.normal(size=9)))).max()
        right = sigmoid(s + t * (x1 + np.abs(random.normal(size=9)))).min()
        worst = max(worst, left, 1 - right)
    # Lemma 2.4: a point inside a closed ring, known at more and more places.
    centre, covers, gaps = np.array([0.1, -0.05]), [], []
    for count in (400, 3200, 25_600):
        ring = _ring(random, count)
        b = _subcover(centre, ring, epsilon)
        covers.append(len(b))
        f = lambda x, b=b: (x - centre) @ (b - centre).T / np.sum((b - centre) ** 2, axis=1)
        s, t = threshold(0.0, 1 - epsilon, 0.9 * epsilon / len(b), 1 - 0.9 * epsilon)
        g = lambda x, f=f, s=s, t=t: sigmoid(s + t * f(x)).sum(axis=1)
        fresh = _ring(random, 20_000) if count == 25_600 else ring
        gaps.append((float(g(centre[None])[0]), float(1 - g(fresh).min())))
    # Lemma 2.5: a disc and a ring around it that do not touch.
    heights, sides, on_low, on_high = np.empty(0), [], 1.0, 0.0
    for grid in grids:
        axis = np.linspace(-1, 1, grid)
        points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
        radius = np.hypot(points[..., 0], points[..., 1])
        high, low = radius <= 0.35, radius >= 0.65
        rough = np.where(high, 1.0, np.where(low, -1.0, 0.0))
        part, heights = separate(points, high, low, rough, random)
        sides.append(part.widths[0])
        on_low, on_high = float(heights[low].max()), float(heights[high].min())
    rows = [
        holds(f"σ(s + tx) < ε left of x_0 and > 1 − ε right of x_1, ε = {epsilon:g}, 200 pairs",
              "Lemma 2.3", worst < epsilon, f"below {epsilon:g}", worst),
        holds("g in N_2 with g(x_0) < ε and g > 1 − ε on a closed ring B", "Lemma 2.4",
              max(max(pair) for pair in gaps) < epsilon, f"both gaps below {epsilon:g}",
              max(max(pair) for pair in gaps)),
        holds("H in N_3^σ below 1/6 on B and above 5/6 on A, a disc and a ring", "Lemma 2.5",
              on_low <= 1 / 6 + 1e-9 and on_high >= 5 / 6 - 1e-9, "1/6 and 5/6",
              f"{on_low:.4f} and {on_high:.4f}"),
        holds("finitely many of the open half planes cover B, known at 400 to 25 600 points",
              "Lemma A.1", max(covers) <= 20, "at most 20, whatever the number of points", covers),
        holds(f"so do those that separate the disc, on grids of {grids} points a side",
              "Lemma A.1", max(sides) <= 40, "at most 40", sides),
    ]  # fmt: skip
    figure = draw_image(
        heights.T, (-1, 1, -1, 1), "$x_1$", "$x_2$", "H",
        "A network of N_3^σ that tells a disc of radius 0.35 from all that lies beyond 0.65.",
        size=(4.6, 3.6),
    )  # fmt: skip
    return Finding(rows, {"separation": figure})


def _ring(random: np.random.Generator, count: int) -> np.ndarray:
    """Points of the closed ring 0.6 ≤ |x| ≤ 1."""
    radius, angle = random.uniform(0.6, 1, count), random.uniform(0, 2 * np.pi, count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _subcover(a: np.ndarray, ring: np.ndarray, epsilon: float) -> np.ndarray:
    """Points b of B whose half planes {f_b > 1 − ε}, f_b(a) = 0 and f_b(b) = 1, cover all of B."""
    chosen, left = [], ring
    while len(left):
        b = left[np.argmin(np.sum((left - a) ** 2, axis=1))]
        left = left[(left - a) @ (b - a) <= (1 - epsilon) * np.sum((b - a) ** 2)]
        chosen.append(b)
    return np.array(chosen)
