"""Observables of a transformer's states against depth, beside the control without training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.figure import Axis, Histogram, Lines, Map, Panels, Series, Strip
from metastable.flows import Trajectory
from metastable.observe.similarity import pairwise_similarity
from metastable.report.figures.run import SHARE_OF_PAIRS, borders

if TYPE_CHECKING:
    from metastable.models.inspection import Inspection
    from metastable.models.study import Study

THINNEST = 0.02  # bar of a histogram
ARMS = {"trained": 0, "untrained": -1, "shuffled": 1}  # numbers of colors
COSINE = r"$\langle x_i, x_j\rangle$"


def depth_axis(times: np.ndarray) -> Axis:
    """Layers; past 64 of them logarithmic."""
    if times[-1] <= 64:
        return Axis("layer", ticks="integer")
    places = [0, *(2**k for k in range(0, 20, 2) if 2**k <= times[-1])]
    limits = (-0.1, 1.06 * float(times[-1]))
    return Axis("layer", scale="symlog", limits=limits, places=places)


def plot_cosine_histograms(run: Trajectory, control: Trajectory | None, count: int = 5) -> Panels:
    """Densities of ⟨x_i,x_j⟩, i ≠ j, through the layers; the control, if any, in the lower row."""
    rows = [("trained", run)] + ([] if control is None else [("untrained", control)])
    chosen = _spread(run, count)
    lowest, top = -0.3, 0.0
    parts = []
    for name, states in rows:
        for column, k in enumerate(min(k, len(states.times) - 1) for k in chosen):
            values = pairwise_similarity(states.frames[k])[0]
            heights, edges = _freedman_diaconis(values)
            lowest = min(lowest, values.min() - 0.05)
            # A collapsed state is one bar of any height: the frame is that of the first states.
            if name == "trained" or column == 0:
                top = max(top, 1.25 * heights.max())
            note = f"mean {values.mean():.2f}\n≥ 0.99: {np.mean(values >= 0.99):.1%}"
            look: dict[str, Any] = {"title": f"layer {states.times[k]:g}", "note": note}
            look["group"] = ARMS[name]
            parts.append(((edges, heights), f"density, {name}" if column == 0 else "", look))
    x, limits = Axis(COSINE, limits=(float(lowest), 1.05)), (0.0, float(top))
    # All heights are on one scale, told on the left.
    side = lambda y: Axis(y, limits=limits, ticks="" if y else "none")
    panels = [Histogram({"": bins}, x, side(y), **look) for bins, y, look in parts]
    caption = "Cosines of all pairs of different tokens through the layers, Freedman–Diaconis bins"
    if control is not None:
        caption += "; above the trained model, below the same shape without training (first seed)"
    caption += ". The diagonal i = j is left out; bars that leave the frame are cut."
    size = (1.75 * len(chosen), 2.0 * len(rows))
    return Panels(panels, len(chosen), size=size, caption=caption)


def plot_cosines(result: Inspection) -> Strip:
    """Histograms on fixed edges as a heat map, their mean, and theory's γ with a fitted clock."""
    sides = [("trained", result.table, result.clock)]
    if result.control_table is not None and result.control_clock is not None:
        sides.append(("untrained", result.control_table, result.control_clock))
    maps = []
    for name, table, clock in sides:
        times = table.times
        label = rf"$\gamma_\beta$, $\beta$ = {clock.beta:g}, {clock.rate:.2g} per layer"
        axes = depth_axis(times), Axis("" if maps else COSINE, limits=(-0.6, 1.02)), SHARE_OF_PAIRS
        edges = borders(times), np.linspace(-1, 1, table.histogram.shape[1] + 1)
        shares = np.where(table.histogram > 0, table.histogram, np.nan).T
        lines = [Series("mean", times, table.mean_cosine)]
        lines.append(Series(label, times, clock.cosines, role="theory", dash="dashed"))
        maps.append(Map(*axes, *edges, shares, lines, palette="density", title=name))
    caption = "Cosines of all pairs on fixed bins through depth, their mean, and γ_β: the "
    caption += "common cosine of orthogonal tokens under attention with Q = K = V = I at inverse "
    caption += "temperature β. Its clock is fitted: what a layer is worth in SA units, the time of "
    caption += "self-attention."
    return Strip(maps, columns=len(maps), size=(4.4 * len(maps), 3.3), caption=caption)


def plot_cluster_counts(result: Inspection) -> Panels:
    """Clusters by three definitions, the control's, and what merged and split."""
    table, at = result.table, result.table.times[result.table.chosen]
    groups, twins = result.groups, result.twins
    name = f"cosine ≥ {groups.thresholds[0]:g}"
    counts = [
        Series(name, table.times, groups.counts, style="steps", group=0),
        Series("rank of the Gram matrix", at, table.gram_rank, style="points", group=2),
        Series("maxima of the density", at, table.modes, style="points", group=5),
    ]
    if twins is not None:
        steps: dict[str, Any] = {"style": "steps", "role": "control"}
        spread = twins.counts
        counts.append(Series("untrained", table.times, spread.mean, band=spread.band, **steps))
    merged, split = np.cumsum(groups.changes, axis=0).T
    sums = {"merged": merged, "split": split}
    changes = [Series(name, table.times, count, style="steps") for name, count in sums.items()]
    y = Axis("clusters", limits=(0.0, 1.08 * float(groups.counts.max())))
    right = _over_depth(result, Axis("clusters, summed over layers"), changes)
    caption = f"Clusters of tokens through depth: {groups.rule}, rank of the Gram matrix "
    caption += "thresholded at 0.99, maxima of the kernel density at β = 50. Right: clusters of "
    caption += (
        "the first kind that became part of another, and parts that left one, since the start."
    )
    panels = [_over_depth(result, y, counts), right]
    caption += "" if twins is None else twins.note
    return Panels(panels, 2, size=(8.6, 3.1), caption=caption + _mark(result))


def plot_ranks(result: Inspection) -> Panels:
    """Effective rank with and without the first token, its length, and two measures of collapse."""
    table, first = result.table, result.first
    states = np.arange(len(first.ratios)).astype(float)
    ranks = [Series("all tokens", states, first.ranks, group=5)]
    ranks.append(Series("without the first", states, first.ranks_without, group=0))
    length = [Series("", states, first.ratios, group=5)]
    rest = [Series("from consensus", table.times, table.residual, group=2)]
    rest.append(Series("top 3 coordinates", table.times, table.top_share, group=3))
    x, longer = depth_axis(states), Axis("length of the first token\nover the median", scale="log")
    panels = [
        Lines(x, Axis("effective rank, lengths kept", limits=(0.0, None)), ranks),
        Lines(x, longer, length, levels={"": first.threshold}),
        _over_depth(result, Axis("share", limits=(0.0, 1.02)), rest),
    ]
    caption = "Effective rank of the raw states and the length of the first token (dotted: where "
    caption += "it counts as standing out), at trained depth; distance from consensus ‖X − "
    caption += "1x̄ᵀ‖/‖X‖, and the share of the mean cosine that three coordinates carry."
    return Panels(panels, 3, size=(10.5, 3.0), caption=caption)


def plot_energies(result: Inspection) -> Panels:
    """Interaction energies through depth, with the states at which they fell."""
    from metastable.models.depthwise import BETAS, energy_drops

    panels, times, twins = [], result.table.times, result.twins
    for k, beta in enumerate(BETAS):
        values = result.table.energy[:, k]
        drops = energy_drops(values)
        series = [Series("trained", times, values, group=ARMS["trained"])]
        if twins is not None:
            spread = twins.of_tables("energy", k)
            look: dict[str, Any] = {"band": spread.band, "group": ARMS["untrained"]}
            series.append(Series("untrained", times, spread.mean, **look))
        fell = times[drops], values[drops]
        series.append(Series("", *fell, style="points", marker="triangle", group=5))
        y = Axis(r"$2\beta e^{-\beta} E_\beta$")
        panels.append(_over_depth(result, y, series, title=rf"$\beta$ = {beta:g}"))
    caption = "Energy of the directions, 1 for a single cluster. Attention with V = I never lets "
    caption += "it fall; triangles mark layers after which that of the model is lower than before."
    caption += ("" if twins is None else twins.note) + _mark(result)
    return Panels(panels, len(panels), size=(4.3 * len(panels), 3.0), caption=caption)


def plot_alignment(result: Inspection) -> Panels:
    """Linear CKA between layers, and the intrinsic dimension of the states."""
    table, twins = result.table, result.twins
    depths = table.times[table.chosen]
    ticks = np.unique(np.linspace(0, len(depths) - 1, min(7, len(depths))).astype(int))
    names = [f"{depths[k]:g}" for k in ticks]
    axis, edges = Axis("layer", places=ticks.tolist(), names=names), np.arange(len(depths) + 1)
    value = Axis("linear CKA", limits=(0.0, 1.0))
    left = Map(axis, axis, value, edges - 0.5, edges - 0.5, table.cka, equal=True)
    dimensions = [Series("trained", depths, table.dimension, style="both", group=6)]
    if twins is not None:
        spread = twins.dimension
        look: dict[str, Any] = {"role": "control", "band": spread.band}
        dimensions.append(Series("untrained", depths, spread.mean, **look))
    right = _over_depth(result, Axis("intrinsic dimension", limits=(0.0, None)), dimensions)
    caption = "Linear CKA between states, 1 where they agree up to rotation and scale; intrinsic "
    caption += "dimension by nearest neighbors, coincident tokens counted once."
    caption += ("" if twins is None else twins.note) + _mark(result)
    return Panels([left, right], 2, size=(8.0, 3.2), caption=caption)


def plot_study(study: Study) -> Panels:
    """Means over prompts with bands of one standard deviation, for the model and its controls."""
    names = {"mean_cosine": "mean cosine", "mass_099": "pairs ≥ 0.99"}
    names |= {"cluster_share": "clusters / tokens", "effective_rank": "effective rank"}
    panels = []
    for name, label in names.items():
        series = []
        for arm in study.series:
            spread = study.spread(arm, name)
            band = np.array([spread.mean - spread.deviation, spread.mean + spread.deviation])
            series.append(Series(arm, study.times, spread.mean, band=band, group=ARMS[arm]))
        panels.append(Lines(depth_axis(study.times), Axis(label), series, legend=not panels))
    caption = f"{study.prompts} prompts: mean and one standard deviation, for the model, the same "
    caption += "shape without training, and the model on shuffled tokens."
    return Panels(panels, 2, size=(8.6, 5.6), caption=caption)


def _over_depth(result: Inspection, y: Axis, series: list[Series], **rest: Any) -> Lines:
    """Lines over the layers; a dotted line marks the trained depth."""
    times, trained = result.table.times, result.run.statistics["layers"]
    marks = {"": trained} if times[-1] > trained else {}
    return Lines(depth_axis(times), y, series, marks=marks, **rest)


def _spread(run: Trajectory, count: int) -> list[int]:
    """First and last state, the trained depth, and even steps between (of log depth, if long)."""
    last = len(run.times) - 1
    if last < count:
        return list(range(last + 1))
    trained = min(int(np.searchsorted(run.times, run.statistics["layers"])), last)
    if trained < last:
        past = np.geomspace(trained, last, count - 1)
        return sorted({0, *np.round(past).astype(int).tolist()})
    return np.round(np.linspace(0, last, count)).astype(int).tolist()


def _freedman_diaconis(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Density and edges; the width 2·IQR·n^{−1/3}, or what can still be seen."""
    low, high = np.quantile(values, [0.25, 0.75])
    width = max(2 * (high - low) * len(values) ** (-1 / 3), THINNEST)
    bins = int(np.ceil((values.max() - values.min()) / width)) or 1
    edges = values.max() + width * np.arange(-bins, 1)
    edges[0] = min(edges[0], values.min())
    return np.histogram(values, edges, density=True)


def _mark(result: Inspection) -> str:
    trained = result.run.statistics["layers"]
    past = result.run.times[-1] > trained
    return f" Dotted: the trained depth, {trained} layers." if past else ""
