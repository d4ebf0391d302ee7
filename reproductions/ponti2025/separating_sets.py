"""Networks that tell closed sets apart."""

from __future__ import annotations

import numpy as np

from metastable.report.figures.plain import plot_image
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._separation import separate, sigmoid, threshold

ENTRY = Entry(
    title="Networks that tell closed sets apart",
    places=["Lemma 2.3", "Lemma 2.4", "Lemma 2.5", "Lemma A.1"],
    claim=(
        "A sigmoid separates two numbers, N_2 a point from a closed set, N_3 two closed sets; "
        "a closed subset of a compact set has finite subcovers, on which this rests."
    ),
    method=(
        "The constructions of the proofs on a ring and a disc in the plane: the finite cover "
        "is found, and the networks are checked at points not used for it."
    ),
    subject="networks",
    basis="text",
    limits=(
        "A ring and a disc in the plane on grids of up to 65 points a side; finite checks of "
        "statements on all closed sets."
    ),
    planted="sigmoid * 0.9",
    settings={"grids": [33, 49, 65], "epsilon": 0.1},
    fast={"grids": [33]},
)


def separating_sets(*, grids: list[int], epsilon: float) -> Finding:
    """Points from points, a point from a set, a set from a set; and the finite covers between."""
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
    figure = plot_image(
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
