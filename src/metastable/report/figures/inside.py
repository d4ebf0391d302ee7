"""What happens inside the layers of a transformer: energy, the ladder, sinks, hypotheses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metastable.core.figure import Axis, Bars, Lines, Map, Panels, Series

if TYPE_CHECKING:
    from metastable.models.energy import EnergyParts
    from metastable.models.hypotheses import HeadHypotheses
    from metastable.models.ladder import Ladder


def plot_energy_parts(parts: EnergyParts) -> Panels:
    """Change of the energy in every layer, its parts, and how much of each is of first order."""
    layers = np.arange(1, len(parts.change) + 1).astype(float)
    left = [
        Series("attention", layers, parts.attention, group=0, style="points"),
        Series("feed-forward", layers, parts.feed_forward, group=1, style="points"),
    ]
    if np.abs(parts.norm).max() > 1e-9:
        left.append(Series("norms", layers, parts.norm, group=2, style="points"))
    left.append(Series("together", layers, parts.change, group=5))
    first = parts.attention_first + parts.feed_forward_first
    beyond = parts.attention + parts.feed_forward - first
    right = [
        Series("first order: along what is added", layers, first, group=0),
        Series("beyond: directions turned apart", layers, beyond, group=3),
        Series("together", layers, first + beyond, group=5),
    ]
    x, zero = Axis("layer"), {"": 0.0}
    caption = "Change of the energy at β = 1 in every layer, and its exact parts. Right: what is "
    caption += "added pulls tokens together to first order, and turns their directions apart "
    caption += "beyond it; where the two nearly cancel, the sign hangs on both."
    panels = [
        Lines(x, Axis("change of the energy"), left, levels=zero),
        Lines(x, Axis("attention and feed-forward"), right, levels=zero),
    ]
    return Panels(panels, 2, size=(8.8, 3.1), caption=caption)


def plot_ladder(ladder: Ladder) -> Bars:
    """Share of the motion that each rung explains on texts it has not seen."""
    share = 100 * ladder.share
    errors = 100 * np.stack([ladder.share - ladder.low, ladder.high - ladder.share])
    caption = "Share of the squared motion of directions that each rung explains on held-out "
    caption += "texts, from the attention of the theorems to the model itself; bars are 95 % "
    caption += "intervals over texts."
    return Bars(
        ladder.rungs,
        {"": share},
        Axis(""),
        Axis("motion explained", unit="%"),
        errors={"": errors.max(axis=0)},
        size=(7.4, 3.0),
        caption=caption,
    )


def plot_sinks(maps: np.ndarray) -> Map:
    """Share of attention on the first token, layer by layer and head by head."""
    from metastable.models.sinks import sink_shares

    shares = np.array([sink_shares(layer) for layer in maps])
    layers, heads = shares.shape
    caption = "Share of attention on the first token by layer and head (mean over the tokens after "
    caption += "the third); above one half a head is a sink."
    return Map(
        Axis("layer", ticks="integer"),
        Axis("head", ticks="integer"),
        Axis("on the first token", limits=(0.0, 1.0)),
        np.arange(layers + 1) - 0.5,
        np.arange(heads + 1) - 0.5,
        shares.T,
        size=(6.4, 3.0),
        caption=caption,
    )


def plot_hypotheses(heads: list[HeadHypotheses]) -> Panels:
    """What theorems ask of heads, against their layer: overlaps, 1 where met."""
    layers = np.array([head.layer for head in heads], float)
    rows = {
        "QᵀK symmetric": [head.symmetric for head in heads],
        "V = I": [head.value_isotropic for head in heads],
        "V = QᵀK": [head.aligned for head in heads],
        "V normal": [head.normal for head in heads],
        "spectrum of V positive": [head.positive for head in heads],
    }
    panels, x = [], Axis("layer", limits=(-0.6, float(layers.max()) + 0.6), ticks="integer")
    for number, (name, values) in enumerate(rows.items()):
        y = Axis("overlap" if number == 0 else "", limits=(min(-0.1, min(values)), 1.05))
        dots = [Series("", layers, np.array(values), style="points", group=0)]
        panels.append(Lines(x, y, dots, levels={"": 1.0}, title=name))
    caption = "Hypotheses of the theorems, one dot a head, from the weights alone; the dotted line "
    caption += "is where they hold; a random QᵀK is symmetric by one half."
    return Panels(panels, len(panels), size=(2.3 * len(panels), 2.5), caption=caption)
