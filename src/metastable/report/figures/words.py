"""Words of a text: on the sphere, in attention maps, and pulled by their contexts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.figure import Axis, Cloud, Lines, Map, Panels, Series, Strip
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.observe.clusters import clusters
from metastable.report.figures.run import view_of

if TYPE_CHECKING:
    from metastable.models.embedding import ContextPull
    from metastable.models.weights import Head

MOST_MAPPED = 22  # words beside an attention map
MOST_LABELS = 26


def plot_words(run: Trajectory, shown: list[int]) -> Strip:
    """Tokens with their words on S²: the three main axes of the centered directions, normalized."""
    words = run.statistics["words"]
    stacked = np.concatenate([_centered(run, k) for k in shown])
    _, values, axes3 = np.linalg.svd(stacked, full_matrices=False)
    kept = np.sum(values[:3] ** 2) / np.sum(values**2)
    groups = clusters(run.frames[shown[-1]].directions(), angle=float(np.arccos(0.99)))
    # A color for groups; a token on its own stays gray.
    sizes = np.bincount(groups.labels)
    colored = np.where(sizes[groups.labels] > 1, groups.labels, -1)
    clouds = []
    for k in shown:
        flat = _centered(run, k) @ axes3[:3].T
        norms = np.linalg.norm(flat, axis=1, keepdims=True)
        if not norms.all():
            continue
        measure = Points(flat / np.maximum(norms, 1e-300))
        view = view_of(measure)
        points, masses = np.asarray(measure.points), np.asarray(measure.weights)
        look: dict[str, Any] = {"view": view, "title": f"layer {run.times[k]:g}"}
        look["words"] = _labels(points @ view.T, words)
        clouds.append(Cloud(points, "sphere", colored, masses, **look))
    caption = "Words on the sphere: directions of the tokens, centered, on their three main axes "
    caption += f"({kept:.0%} of the spread), normalized again. Colors: clusters of cosine > 0.99 "
    caption += f"at layer {run.times[shown[-1]]:g}; gray ones are alone. Near side labelled, far "
    caption += "side faint."
    return Strip(clouds, columns=len(clouds), size=(3.1 * len(shown), 3.3), caption=caption)


def plot_attention(maps: np.ndarray, words: list[str], layer: int, count: int = 4) -> Panels:
    """Attention of the most different heads of one layer between the first words of a text."""
    n = min(len(words), MOST_MAPPED)
    heads = _different(maps[layer], count)
    x, edges = Axis("", places=list(range(n)), names=words[:n]), np.arange(n + 1) - 0.5
    axes = x, replace(x, limits=(n - 0.5, -0.5)), Axis("", limits=(0.0, 1.0))
    look: dict[str, Any] = {"palette": "density", "equal": True, "bar": False}
    shown = [
        Map(*axes, edges, edges, maps[layer, head, :n, :n], title=f"head {head}", **look)
        for head in heads
    ]
    caption = f"Attention of layer {layer + 1} between the first {n} tokens: the row looks at the "
    caption += f"column, 0 transparent, 1 vermilion. The {len(heads)} heads that differ most."
    return Panels(shown, len(shown), size=(2.9 * len(heads), 3.2), caption=caption)


def plot_pull(pull: ContextPull) -> Panels:
    """One word in sentences of two meanings: agreement through depth, and the pull of each."""
    half = pull.agreement.shape[1] // 2
    number = range(2 * half)
    pairs = [(i, j) for i in number for j in number if i < j]
    agreement = []
    for name, same, group in (("one meaning", True, 0), ("two", False, 5)):
        chosen = [(i, j) for i, j in pairs if (i // half == j // half) is same]
        mean = np.mean([pull.agreement[:, i, j] for i, j in chosen], axis=0)
        agreement.append(Series(name, pull.times, mean, group=group))
    own = [Series("", pull.times, each, group=2, width=1.2) for each in np.transpose(pull.pull)]
    left = Lines(Axis("layer"), Axis(f"cosine of “{pull.word}” between sentences"), agreement)
    right = Lines(Axis("layer"), Axis("cosine with the rest of its sentence"), own)
    caption = f"“{pull.word}” in {2 * half} sentences, half of them of one meaning: its cosine "
    caption += "between sentences of one meaning and of two, and with the mean direction of its "
    caption += "own sentence."
    return Panels([left, right], 2, size=(8.2, 3.0), caption=caption)


def plot_heads(heads: list[Head]) -> Panels:
    """Eigenvalues of OV in the complex plane, and the effective β of every head."""
    last = max(head.layer for head in heads)
    values, strengths = [], []
    for layer in sorted({head.layer for head in heads}):
        own = [head for head in heads if head.layer == layer]
        look: dict[str, Any] = {"style": "points", "scale": "beta", "shade": layer / max(last, 1)}
        each = np.concatenate([np.asarray(head.value_eigenvalues) for head in own])
        small = np.full(each.size, 3.0)
        values.append(Series("", np.real(each), np.imag(each), sizes=small, **look))
        places = [head.layer if last else head.head for head in own]
        strengths.append(Series("", places, [head.beta for head in own], **look))
    left = Lines(Axis("Re λ(OV)"), Axis("Im λ(OV)"), values, marks={"": 0.0})
    across = Axis("layer" if last else "head", ticks="integer")
    right = Lines(across, Axis(r"effective $\beta$", limits=(0.0, None)), strengths)
    caption = "Eigenvalues of OV of every head (V of the theory: real positive ones attract), dark "
    caption += "early layers to light late ones; effective inverse temperature of each head."
    return Panels([left, right], 2, size=(8.2, 3.2), caption=caption)


def _centered(run: Trajectory, k: int) -> np.ndarray:
    x = np.asarray(run.frames[k].directions().points)
    return x - x.mean(axis=0)


def _labels(places: np.ndarray, words: list[str]) -> list[str]:
    """Words at tokens of the near side, as many as find room; "" elsewhere."""
    labels = [""] * len(words)
    placed: list[tuple[float, float, float]] = []
    for k in np.argsort(-places[:, 2]):
        x, y, depth = places[k]
        if depth < 0.05 or len(placed) >= MOST_LABELS:
            break
        room = 0.05 + 0.055 * len(words[k])  # in radii
        if any(abs(x - a) < max(width, room) and abs(y - b) < 0.09 for a, b, width in placed):
            continue
        placed.append((x, y, room))
        labels[k] = words[k]
    return labels


def _different(maps: np.ndarray, count: int) -> list[int]:
    """Heads chosen one by one, each farthest from those before."""
    flat = maps.reshape(len(maps), -1)
    chosen = [int(np.argmax(np.linalg.norm(flat - flat.mean(axis=0), axis=1)))]
    while len(chosen) < min(count, len(maps)):
        gaps = np.min([np.linalg.norm(flat - flat[k], axis=1) for k in chosen], axis=0)
        chosen.append(int(np.argmax(gaps)))
    return sorted(chosen)
