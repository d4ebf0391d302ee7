"""Observables of a transformer's states against depth, beside the control without training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from metastable.flows import Trajectory
from metastable.observe.similarity import pairwise_similarity
from metastable.report.style import (
    CATEGORIES,
    DENSITY,
    INK,
    OTHER,
    TIME,
    ink_axis,
    legend,
    new_figure,
)

if TYPE_CHECKING:
    from metastable.models.depthwise import Depthwise
    from metastable.models.inspection import Inspection
    from metastable.models.study import Study

__all__ = [
    "depth_axis",
    "draw_alignment",
    "draw_cluster_counts",
    "draw_cosines",
    "draw_energies",
    "draw_histograms",
    "draw_ranks",
    "draw_study",
]

THINNEST = 0.02  # bar of a histogram
ARM_COLOURS = {"trained": CATEGORIES[0], "untrained": OTHER, "shuffled": CATEGORIES[1]}


def depth_axis(ax: Axes, times: np.ndarray, trained: int | None = None) -> None:
    """Label the x axis with layers; past 64 of them logarithmic. A line marks the trained depth."""
    ax.set_xlabel("layer")
    if times[-1] > 64:
        ax.set_xscale("symlog", linthresh=1, linscale=0.4)
        shown = [0, *(2**k for k in range(0, 20, 2) if 2**k <= times[-1])]
        ax.set_xticks(shown, [str(one) for one in shown])
        ax.minorticks_off()
        ax.set_xlim(-0.1, 1.06 * times[-1])
    if trained is not None and times[-1] > trained:
        ax.axvline(trained, color=INK, lw=0.8, ls=":", alpha=0.7)


def draw_histograms(run: Trajectory, control: Trajectory | None, count: int = 5) -> Figure:
    """Densities of ⟨x_i,x_j⟩, i ≠ j, through the layers; the control, if any, in the lower row."""
    rows = [("trained", run)] + ([] if control is None else [("untrained", control)])
    chosen = _spread(run, count)
    figure, axes = new_figure(len(rows), len(chosen), size=(1.75 * len(chosen), 1.9 * len(rows)))
    axes = np.reshape(axes, (len(rows), len(chosen)))
    lowest, top = -0.3, 0.0
    for row, (name, one) in zip(axes, rows, strict=True):
        places = [min(k, len(one.times) - 1) for k in chosen]
        cosines = [pairwise_similarity(one.frames[k])[0] for k in places]
        bins = [_freedman_diaconis(values) for values in cosines]
        # A collapsed state is one bar of any height: the frame is that of the first states.
        top = max(
            [top, *(1.25 * h.max() for h, _ in bins[: len(bins) if name == "trained" else 1])]
        )
        for ax, k, values, (h, edges) in zip(row, places, cosines, bins, strict=True):
            ax.stairs(h, edges, fill=True, color=ARM_COLOURS[name], alpha=0.85)
            ax.set_title(f"layer {one.times[k]:g}")
            share = np.mean(values >= 0.99)
            ax.text(
                0.04,
                0.96,
                f"mean {values.mean():.2f}\n≥ 0.99: {share:.1%}",
                transform=ax.transAxes,
                va="top",
                fontsize=7.5,
                color=INK,
            )
            lowest = min(lowest, values.min() - 0.05)
        row[0].set_ylabel(f"density, {name}")
    for ax in axes.flat:
        ax.set(xlim=(lowest, 1.05), ylim=(0, top))
    for ax in axes[-1]:
        ax.set_xlabel(r"$\langle x_i, x_j\rangle$")
    told = "Cosines of all pairs of different tokens through the layers, Freedman–Diaconis bins"
    if control is not None:
        told += "; above the trained model, below the same shape without training"
    figure.set_label(f"{told}. The diagonal i = j is left out; bars that leave the frame are cut.")
    return figure


def draw_cosines(found: Inspection) -> Figure:
    """Histograms on fixed edges as a heat map, their mean, and theory's γ with a fitted clock."""
    sides = [("trained", found.table, found.clock)]
    if found.control_table is not None and found.control_clock is not None:
        sides.append(("untrained", found.control_table, found.control_clock))
    figure, axes = new_figure(1, len(sides), size=(4.4 * len(sides), 3.1))
    trained = found.run.statistics["layers"]
    for ax, (name, table, clock) in zip(np.atleast_1d(axes).ravel(), sides, strict=True):
        times = table.times
        edges = np.concatenate([times[:1], (times[1:] + times[:-1]) / 2, times[-1:]])
        mesh = ax.pcolormesh(
            edges,
            np.linspace(-1, 1, table.histogram.shape[1] + 1),
            np.ma.masked_equal(table.histogram, 0).T,
            cmap=DENSITY,
            norm=LogNorm(1e-4, 1.0, clip=True),
            rasterized=True,
        )
        ax.plot(times, table.mean_cosine, color=INK, lw=1.4, label="mean")
        label = rf"$\gamma_\beta$, $\beta$ = {clock.beta:g}, {clock.rate:.2g} per layer"
        ax.plot(times, clock.cosines, color=CATEGORIES[5], lw=1.2, ls="--", label=label)
        ax.set(ylim=(-0.6, 1.02), title=name)
        depth_axis(ax, times, trained)
        legend(ax, loc="lower right")
    first = np.atleast_1d(axes).ravel()[0]
    first.set_ylabel(r"$\langle x_i, x_j\rangle$")
    bar = figure.colorbar(mesh, ax=axes, label="share of pairs")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.ax.set_facecolor("none")
    ink_axis(bar.ax)
    figure.set_label(
        "Cosines of all pairs on fixed bins through depth, their mean, and the common cosine of "
        "orthogonal tokens under attention with Q = K = V = I, its clock fitted (SA units a layer)."
        + _mark(found)
    )
    return figure


def draw_cluster_counts(found: Inspection) -> Figure:
    """Clusters by three definitions, the control's, and what merged and split."""
    table, trained = found.table, found.run.statistics["layers"]
    figure, axes = new_figure(1, 2, size=(8.6, 3.1))
    left, right = axes[0]
    left.plot(table.times, table.clusters, color=CATEGORIES[0], lw=1.6, label="cosine > 0.99")
    told = {"rank of the Gram matrix": table.gram_rank, "maxima of the density": table.modes}
    for (name, values), colour in zip(told.items(), (CATEGORIES[2], CATEGORIES[5]), strict=True):
        left.plot(table.times[table.chosen], values, "o", ms=3.5, mew=0, color=colour, label=name)
    if found.control_table is not None:
        control = found.control_table
        left.plot(control.times, control.clusters, color=OTHER, lw=1.4, label="untrained")
    left.set(ylabel="clusters", ylim=(0, 1.08 * table.clusters.max()))
    legend(left, loc="best")
    for values, name, colour in (
        (table.merges, "merged", CATEGORIES[0]),
        (table.splits, "split", CATEGORIES[1]),
    ):
        right.plot(table.times, np.cumsum(values), color=colour, lw=1.6, label=name)
    right.set_ylabel("clusters, summed over layers")
    legend(right, loc="best")
    for ax in (left, right):
        depth_axis(ax, table.times, trained)
    figure.set_label(
        "Clusters of tokens through depth: chains of cosine > 0.99, rank of the Gram matrix "
        "thresholded there, maxima of the kernel density at β = 50. Right: clusters (cosine > "
        "0.99) that became part of another, and parts that left one, since the start."
        + _mark(found)
    )
    return figure


def draw_ranks(found: Inspection) -> Figure:
    """Effective rank with and without the first token, its length, and two measures of collapse."""
    table, first = found.table, found.first
    figure, axes = new_figure(1, 3, size=(10.5, 3.0))
    rank, length, rest = axes[0]
    states = np.arange(len(first.ratios))
    rank.plot(states, first.ranks, color=CATEGORIES[5], lw=1.6, label="all tokens")
    rank.plot(states, first.ranks_without, color=CATEGORIES[0], lw=1.6, label="without the first")
    rank.set(ylabel="effective rank, lengths kept", ylim=(0, None))
    legend(rank, loc="best")
    length.plot(states, first.ratios, color=CATEGORIES[5], lw=1.6)
    length.axhline(first.threshold, color=OTHER, lw=0.8, ls="--")
    length.set(ylabel="length of the first token\nover the median", yscale="log")
    rest.plot(table.times, table.residual, color=CATEGORIES[2], lw=1.6, label="from consensus")
    rest.plot(table.times, table.top_share, color=CATEGORIES[3], lw=1.6, label="top 3 coordinates")
    rest.set(ylim=(0, 1.02), ylabel="share")
    legend(rest, loc="best")
    for ax in (rank, length):
        depth_axis(ax, states.astype(float))
    depth_axis(rest, table.times, found.run.statistics["layers"])
    figure.set_label(
        "Effective rank of the raw states and the length of the first token (dashed: where it "
        "counts as standing out), at trained depth; distance from consensus ‖X − 1x̄ᵀ‖/‖X‖, and "
        "the share of the mean cosine that three coordinates carry."
    )
    return figure


def draw_energies(found: Inspection) -> Figure:
    """Interaction energies through depth, with the states at which they fell."""
    from metastable.models.depthwise import BETAS, energy_drops

    figure, axes = new_figure(1, len(BETAS), size=(4.3 * len(BETAS), 3.0))
    for k, (ax, beta) in enumerate(zip(axes[0], BETAS, strict=True)):
        sides: list[tuple[str, Depthwise]] = [("trained", found.table)]
        if found.control_table is not None:
            sides.append(("untrained", found.control_table))
        for name, table in sides:
            series = table.energy[:, k]
            drops = energy_drops(series)
            ax.plot(table.times, series, color=ARM_COLOURS[name], lw=1.5, label=name)
            ax.plot(table.times[drops], series[drops], "v", color=CATEGORIES[5], ms=4, mew=0)
        ax.set(title=rf"$\beta$ = {beta:g}", ylabel=r"$2\beta e^{-\beta} E_\beta$")
        depth_axis(ax, found.table.times, found.run.statistics["layers"])
        legend(ax, loc="best")
    figure.set_label(
        "Energy of the directions, 1 for a single cluster. Attention with V = I never lets it "
        "fall; triangles mark layers after which it is lower than before." + _mark(found)
    )
    return figure


def draw_alignment(found: Inspection) -> Figure:
    """Linear CKA between layers, and the intrinsic dimension of the states."""
    table = found.table
    figure, axes = new_figure(1, 2, size=(8.0, 3.2))
    left, right = axes[0]
    depths = table.times[table.chosen]
    picture = left.imshow(table.cka, origin="lower", vmin=0, vmax=1, cmap=TIME, aspect="equal")
    left.grid(False)
    ticks = np.unique(np.linspace(0, len(depths) - 1, min(7, len(depths))).astype(int))
    names = [f"{depths[k]:g}" for k in ticks]
    left.set_xticks(ticks, names)
    left.set_yticks(ticks, names)
    left.set(xlabel="layer", ylabel="layer")
    bar = figure.colorbar(picture, ax=left, label="linear CKA")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    ink_axis(bar.ax)
    right.plot(depths, table.dimension, "o-", color=CATEGORIES[6], lw=1.4, ms=3.5, label="trained")
    if found.control_table is not None:
        other = found.control_table
        right.plot(
            other.times[other.chosen], other.dimension, color=OTHER, lw=1.4, label="untrained"
        )
    right.set(ylabel="intrinsic dimension", ylim=(0, None))
    depth_axis(right, table.times, found.run.statistics["layers"])
    legend(right, loc="best")
    figure.set_label(
        "Linear CKA between states, 1 where they agree up to rotation and scale; intrinsic "
        "dimension by nearest neighbours, coincident tokens counted once." + _mark(found)
    )
    return figure


def draw_study(study: Study) -> Figure:
    """Means over prompts with bands of one standard deviation, for the model and its controls."""
    names = {
        "mean_cosine": "mean cosine",
        "mass_099": "pairs ≥ 0.99",
        "clusters_099": "clusters / tokens",
        "effective_rank": "effective rank",
    }
    figure, axes = new_figure(2, 2, size=(8.6, 5.6))
    for ax, (name, label) in zip(axes.flat, names.items(), strict=True):
        for arm in study.series:
            spread = study.spread(arm, "cluster_share" if name == "clusters_099" else name)
            colour = ARM_COLOURS[arm]
            low, high = spread.mean - spread.deviation, spread.mean + spread.deviation
            ax.fill_between(study.times, low, high, color=colour, alpha=0.18, lw=0)
            ax.plot(study.times, spread.mean, color=colour, lw=1.6, label=arm)
        ax.set_ylabel(label)
        depth_axis(ax, study.times)
    legend(axes.flat[0], loc="best")
    figure.set_label(
        f"{study.prompts} prompts: mean and one standard deviation, for the model, the same shape "
        "without training, and the model on shuffled tokens."
    )
    return figure


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


def _mark(found: Inspection) -> str:
    told = found.run.statistics
    if found.run.times[-1] <= told["layers"]:
        return ""
    return f" Dotted: the trained depth, {told['layers']} layers."
