"""Words of a text: on the sphere, in attention maps, and pulled by their contexts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.figure import COLORS, Axis, Cloud, Lines, Map, Panels, Series, Strip
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.observe.clusters import clusters
from metastable.report.figures.layers import depth_axis
from metastable.report.figures.run import view_of

if TYPE_CHECKING:
    from metastable.models.embedding import ContextPull
    from metastable.models.groups import Groups
    from metastable.models.weights import Head

MOST_MAPPED = 22  # words beside an attention map
MOST_LABELS = 26
MOST_ROWS = 60  # words beside the rows of clusters
LONGEST = 14  # letters of such a word
GAP, BAND = 0.3, 2.0  # room between clusters, and height of the row of the others


def plot_words(run: Trajectory, shown: list[int], cosine: float = 0.99) -> Strip:
    """Tokens with their words on S²: the three main axes of the centered directions, normalized."""
    words = run.statistics["words"]
    stacked = np.concatenate([_centered(run, k) for k in shown])
    _, values, axes3 = np.linalg.svd(stacked, full_matrices=False)
    kept = np.sum(values[:3] ** 2) / np.sum(values**2)
    groups = clusters(run.frames[shown[-1]].directions(), angle=float(np.arccos(cosine)))
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
    caption += f"({kept:.0%} of the spread), normalized again. Colors: clusters of cosine "
    caption += f"> {cosine:g} at layer {run.times[shown[-1]]:g}; gray ones are alone. Near "
    caption += "side labelled, far side faint."
    return Strip(clouds, columns=len(clouds), size=(3.1 * len(shown), 3.3), caption=caption)


def plot_groups(groups: Groups) -> Map:
    """Tokens by layers in the colors of their clusters, those that end together side by side."""
    shown = np.any(groups.sizes >= groups.smallest, axis=0)
    shown = shown if shown.any() else np.ones(len(groups.words), bool)
    order, rest = _rivers(groups), int(np.sum(~shown))
    order = order[shown[order]]
    # A little room between the clusters of the last state tells them apart too.
    last, sizes = groups.labels[-1, order], groups.sizes[-1, order]
    parted = (last[1:] != last[:-1]) & (np.maximum(sizes[1:], sizes[:-1]) >= groups.smallest)
    tops = np.arange(len(order)) + GAP * np.concatenate([[0], np.cumsum(parted)])
    every = -(-len(order) // MOST_ROWS)
    names, places = [_short(groups.words[k]) for k in order[::every]], tops[::every] + 0.5
    colors, ends = _colors(groups, order), tops + 1
    if rest:  # those that are never in a cluster, in one row
        tops = np.append(tops, ends[-1] + GAP)
        ends = np.append(ends, tops[-1] + BAND * every)
        names.append(f"{rest} other{'s' * (rest > 1)}")
        places = np.append(places, (tops[-1] + ends[-1]) / 2)
        colors = np.append(colors, np.full_like(colors[:1], -1), axis=0)
    edges = np.unique(np.concatenate([tops, ends]).round(6))
    values = np.full((len(edges) - 1, len(groups.times)), np.nan)
    values[np.searchsorted(edges, tops.round(6))] = colors
    middles = (groups.times[1:] + groups.times[:-1]) / 2
    across = np.concatenate([[groups.times[0] - 0.5], middles, [groups.times[-1] + 0.5]])
    alone = "are alone" if groups.smallest == 2 else f"are fewer than {groups.smallest} together"
    caption = f"Tokens through depth in the colors of their clusters ({groups.rule}); gray ones "
    caption += f"{alone}. Where clusters merge, the one with most tokens keeps its color."
    caption += " Tokens that end together stand together, the largest cluster on top"
    caption += f"; one in {every} is named" if every > 1 else ""
    caption += f"; in the last row {rest} that are never in a cluster." if rest else "."
    if groups.scale_free and (groups.counts == 1).any():
        caption += " One color for all: nothing sets any apart."
    y = Axis("", limits=(float(edges[-1]), 0.0), places=places.tolist(), names=names)
    look: dict[str, Any] = {"palette": "groups", "bar": False, "caption": caption}
    look["size"] = (7.0, max(1.9, 0.9 + 0.105 * float(edges[-1]) / every))
    return Map(depth_axis(groups.times), y, Axis(), across, edges, values, **look)


def plot_attention(maps: np.ndarray, words: list[str], layer: int, count: int = 4) -> Panels:
    """Attention of the most different heads of one layer between the first words of a text."""
    n = min(len(words), MOST_MAPPED)
    heads = _different(maps[layer], count)
    names = [word.replace("$", r"\$") for word in words[:n]]
    x, edges = Axis("", places=list(range(n)), names=names), np.arange(n + 1) - 0.5
    down = replace(x, limits=(n - 0.5, -0.5))
    bare = Axis("", limits=down.limits, ticks="none")  # rows have their words on the left
    look: dict[str, Any] = {"palette": "density", "equal": True, "bar": False}
    look |= {"x_edges": edges, "y_edges": edges, "value": Axis("", limits=(0.0, 1.0))}
    shown = [
        Map(x, down if number == 0 else bare, values=maps[layer, head, :n, :n],
            title=f"head {head}", **look)
        for number, head in enumerate(heads)
    ]  # fmt: skip
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
    left = Lines(Axis("layer"), Axis(f"cosine of “{pull.word}”"), agreement)
    right = Lines(Axis("layer"), Axis("cosine with its sentence"), own)
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
    caption += "early layers to light late ones; effective β of each head, the inverse temperature "
    caption += "r²‖B‖/√d that its logits amount to (B = s·sym(QᵀK), r the length of its tokens)."
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


def _rivers(groups: Groups) -> np.ndarray:
    """Order of the tokens: by their cluster in the last state, within it by the state before, …

    The largest comes first; tokens alone in a state are one crowd, which states before it order.
    """
    keys = []
    for labels, sizes in zip(groups.labels, groups.sizes, strict=True):
        alone = sizes < groups.smallest
        keys += [np.where(alone, 0, labels), np.where(alone, 0, -sizes)]
    return np.lexsort([np.arange(len(groups.words)), *keys])


def _colors(groups: Groups, order: np.ndarray) -> np.ndarray:
    """(rows, T) numbers of colors, −1 for tokens alone.

    Each cluster has its own while there are colors left. Where there are more clusters, those that
    touch have two, and so have those of one state as far as colors go; the largest choose first.
    """
    rows = np.where(groups.sizes >= groups.smallest, groups.labels, -1)[:, order]
    labels, rows = np.unique(np.append(rows.ravel(), -1), return_inverse=True)
    rows = rows[:-1].reshape(len(groups.times), -1)  # 0 is alone
    alive = np.array([np.bincount(row, minlength=len(labels)) for row in rows])  # (T, labels)
    together = (alive > 0).T.astype(float) @ (alive > 0)
    for one, two in ((rows[:, 1:], rows[:, :-1]), (rows[1:], rows[:-1])):
        np.add.at(together, (one, two), len(rows))
        np.add.at(together, (two, one), len(rows))
    colors = np.full(len(labels), -1)
    for label in 1 + np.argsort(-alive.sum(axis=0)[1:], kind="stable"):
        same = colors[1:] == np.arange(COLORS)[:, None]  # (colors, labels)
        # A clash counts 1 at least, all other uses of a color together less than that.
        clashes = same @ together[label, 1:] + same.sum(axis=1) / len(labels)
        colors[label] = int(np.argmin(clashes))
    return colors[rows].T


def _short(word: str) -> str:
    """A word as the name of a row; a dollar sign would begin a formula."""
    cut = word if len(word) <= LONGEST else word[: LONGEST - 1] + "…"
    return cut.replace("$", r"\$")
