"""Words of a text: on the sphere, in attention maps, and pulled by their contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from metastable.core.figure import Cloud, Strip
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.observe.clusters import clusters
from metastable.report.figures.run import view_of
from metastable.report.style import (
    BETA,
    CATEGORIES,
    DENSITY,
    OTHER,
    new_figure,
)
from metastable.report.style import legend as draw_legend

if TYPE_CHECKING:
    from metastable.models.embedding import ContextPull
    from metastable.models.weights import Head

__all__ = ["draw_heads", "draw_maps", "draw_pull", "plot_words"]

MOST_MAPPED = 22  # words beside an attention map
MOST_LABELS = 26


def plot_words(run: Trajectory, shown: list[int]) -> Strip:
    """Tokens with their words on S²: the three main axes of the centered directions, normalized."""
    words = run.statistics["words"]
    stacked = np.concatenate([_centred(run, k) for k in shown])
    _, values, axes3 = np.linalg.svd(stacked, full_matrices=False)
    kept = np.sum(values[:3] ** 2) / np.sum(values**2)
    groups = clusters(run.frames[shown[-1]].directions(), angle=float(np.arccos(0.99)))
    # A color for groups; a token on its own stays gray.
    sizes = np.bincount(groups.labels)
    colored = np.where(sizes[groups.labels] > 1, groups.labels, -1)
    clouds = []
    for k in shown:
        flat = _centred(run, k) @ axes3[:3].T
        norms = np.linalg.norm(flat, axis=1, keepdims=True)
        if not norms.all():
            continue
        measure = Points(flat / np.maximum(norms, 1e-300))
        view = view_of(measure)
        points = np.asarray(measure.points)
        labels = _labels(points @ view.T, words)
        masses = np.asarray(measure.weights)
        title = f"layer {run.times[k]:g}"
        clouds.append(
            Cloud(points, "sphere", colored, masses, words=labels, view=view, title=title)
        )
    return Strip(
        clouds,
        columns=len(clouds),
        size=(3.1 * len(shown), 3.3),
        caption="Words on the sphere: directions of the tokens, centered, on their three main axes "
        f"({kept:.0%} of the spread), normalized again. Colors: clusters of cosine > 0.99 at "
        f"layer {run.times[shown[-1]]:g}; gray ones are alone. Near side labelled, far side faint.",
    )


def draw_maps(maps: np.ndarray, words: list[str], layer: int, count: int = 4) -> Figure:
    """Attention of the most different heads of one layer between the first words of a text."""
    n = min(len(words), MOST_MAPPED)
    heads = _different(maps[layer], count)
    figure, axes = new_figure(1, len(heads), size=(2.9 * len(heads), 3.2))
    for ax, head in zip(np.atleast_1d(axes).ravel(), heads, strict=True):
        ax.imshow(maps[layer, head, :n, :n], cmap=DENSITY, vmin=0, vmax=1, rasterized=True)
        ax.grid(False)
        ax.set_xticks(range(n), words[:n], rotation=90, fontsize=6)
        ax.set_yticks(range(n), words[:n], fontsize=6)
        ax.set_title(f"head {head}")
    figure.set_label(
        f"Attention of layer {layer + 1} between the first {n} tokens: the row looks at the "
        f"column, 0 transparent, 1 vermilion. The {len(heads)} heads that differ most."
    )
    return figure


def draw_pull(pull: ContextPull) -> Figure:
    """One word in sentences of two meanings: agreement through depth, and the pull of each."""
    figure, axes = new_figure(1, 2, size=(8.2, 3.0))
    left, right = axes[0]
    half = pull.agreement.shape[1] // 2
    number = range(2 * half)
    pairs = [(i, j) for i in number for j in number if i < j]
    for name, same, colour in (("one meaning", True, CATEGORIES[0]), ("two", False, CATEGORIES[5])):
        chosen = [(i, j) for i, j in pairs if (i // half == j // half) is same]
        mean = np.mean([pull.agreement[:, i, j] for i, j in chosen], axis=0)
        left.plot(pull.times, mean, color=colour, lw=1.6, label=name)
    left.set(xlabel="layer", ylabel=f"cosine of “{pull.word}” between sentences")
    draw_legend(left, loc="best")
    right.plot(pull.times, pull.pull, color=CATEGORIES[2], lw=1.2)
    right.set(xlabel="layer", ylabel="cosine with the rest of its sentence")
    figure.set_label(
        f"“{pull.word}” in {2 * half} sentences, half of them of one meaning: its cosine between "
        "sentences of one meaning and of two, and with the mean direction of its own sentence."
    )
    return figure


def draw_heads(heads: list[Head]) -> Figure:
    """Eigenvalues of OV in the complex plane, and the effective β of every head."""
    figure, axes = new_figure(1, 2, size=(8.2, 3.2))
    left, right = axes[0]
    last = max(head.layer for head in heads)
    for head in heads:
        values = head.value_eigenvalues
        colour = BETA(head.layer / max(last, 1))
        left.plot(np.real(values), np.imag(values), ".", ms=2, color=colour, rasterized=True)
        right.plot(head.layer if last else head.head, head.beta, "o", ms=4, mew=0, color=colour)
    left.axvline(0, color=OTHER, lw=0.8)
    left.set(xlabel="Re λ(OV)", ylabel="Im λ(OV)")
    right.set(xlabel="layer" if last else "head", ylabel=r"effective $\beta$", ylim=(0, None))
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.set_label(
        "Eigenvalues of OV of every head (V of the theory: real positive ones attract), dark early "
        "layers to light late ones; effective inverse temperature of each head."
    )
    return figure


def _centred(run: Trajectory, k: int) -> np.ndarray:
    x = np.asarray(run.frames[k].directions().points)
    return x - x.mean(axis=0)


def _labels(seen: np.ndarray, words: list[str]) -> list[str]:
    """Words at tokens of the near side, as many as find room; "" elsewhere."""
    labels = [""] * len(words)
    placed: list[tuple[float, float, float]] = []
    for k in np.argsort(-seen[:, 2]):
        x, y, depth = seen[k]
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
