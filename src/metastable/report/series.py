"""Observables of a run against time: similarity, cluster counts, energy, effective rank."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.observe.clusters import clusters
from metastable.observe.kernel import kernel_modes
from metastable.observe.pairs import carrying
from metastable.observe.similarity import effective_rank, similarity
from metastable.observe.summary import attention_of, energy_form, energy_series
from metastable.report.style import (
    CATEGORIES,
    DENSITY,
    INK,
    ink_axis,
    legend,
    new_figure,
    time_axis,
)
from metastable.report.tracks import beta_of, choose_frames

__all__ = ["draw_clusters", "draw_energy", "draw_rank", "draw_similarity"]

MOST_TOKENS = 1500  # pairs grow with the square; a histogram needs no more
MODE_FRAMES = 24  # maxima of the potential on S² cost tenths of a second per frame


def draw_similarity(run: Trajectory, bins: int = 60, log: bool | None = None) -> Figure:
    """Histogram of the cosines of all pairs of tokens through time, as a heat map, and its mean."""
    chosen = choose_frames(run, 101)
    times = run.times[chosen]
    merged = any(frame.count != run.frames[0].count for frame in run.frames)
    count = run.frames[0].count
    tokens = min(count, MOST_TOKENS) if merged else None
    found = [similarity(_some(run.frames[k]), bins=bins, tokens=tokens) for k in chosen]
    shares = np.ma.masked_equal([one.histogram for one in found], 0.0).T
    figure, ax = new_figure()
    mesh = ax.pcolormesh(
        _edges(times),
        found[0].edges,
        shares,
        cmap=DENSITY,
        norm=LogNorm(1e-4, 1.0, clip=True),
        rasterized=True,
    )
    ax.plot(times, [one.mean for one in found], color=INK, lw=1.2)
    bar = figure.colorbar(mesh, ax=ax, label="share of pairs")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    bar.ax.set_facecolor("none")
    ink_axis(bar.ax)
    ax.set(ylabel=r"$\langle x_i, x_j\rangle$", ylim=(-1.02, 1.02))
    if not run.frames[0].on_sphere:
        ax.set_ylabel(r"$\cos\angle(x_i, x_j)$")
    time_axis(ax, times, run.clock, log)
    some = f" ({MOST_TOKENS} of {count} tokens)" if count > MOST_TOKENS else ""
    figure.set_label(
        f"Cosines of all pairs of different tokens{some} in {bins} bins through time, and their "
        f"mean (line). Time in the {run.clock} clock."
    )
    return figure


def draw_clusters(run: Trajectory, log: bool | None = None) -> Figure:
    """Number of clusters against time, by linkage and as maxima of the potential."""
    figure, ax = new_figure()
    beta = beta_of(run)
    counts = np.array([clusters(frame, beta).count for frame in run.frames])
    ax.step(run.times, counts, where="post", color=CATEGORIES[0], lw=1.6, label="by linkage")
    told = "Number of clusters by linkage (chains of near neighbours)"
    if beta:
        chosen = choose_frames(run, MODE_FRAMES)
        modes = np.array([kernel_modes(run.frames[k], beta).count for k in chosen])
        ax.plot(
            run.times[chosen],
            modes,
            "o",
            color=CATEGORIES[5],
            ms=4,
            mew=0,
            label="maxima of the potential",
        )
        counts = np.append(counts, modes)
        told += " and as maxima of the potential, which also hold before the tokens have gathered"
        legend(ax, loc="best")
    ax.set_ylabel("clusters")
    if counts.max() > 20 * counts.min():
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_ylim(0, counts.max() + 1)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    time_axis(ax, run.times, run.clock, log)
    figure.set_label(f"{told}. Time in the {run.clock} clock.")
    return figure


def draw_energy(run: Trajectory, log: bool | None = None) -> Figure:
    """Interaction energy against time: a staircase, one step 2w_iw_j for each merger."""
    series = energy_series(run)
    attention = attention_of(run.field)
    if series is None or attention is None:
        raise ValueError("run must be self-attention on the sphere to have an energy.")
    if attention.beta == 0:
        label, told = r"$\frac{1}{2}\,\|\Sigma_i w_i x_i\|^2$", "Kuramoto energy"
    elif energy_form(attention) is None:
        label = r"$2\beta e^{-\beta}\,E_\beta$"
        told = "Energy 2β exp(−β) E, which is 1 for a single cluster"
        if attention.value is None:
            told += " and climbs by twice the product of the masses when two clusters merge"
    else:
        label, told = r"$E_\beta$", "Energy of the field, with ⟨Vx, y⟩ in the exponent"
    figure, ax = new_figure()
    ax.plot(run.times, series, color=CATEGORIES[2], lw=1.6)
    ax.set_ylabel(label)
    time_axis(ax, run.times, run.clock, log)
    figure.set_label(f"{told}. Time in the {run.clock} clock.")
    return figure


def draw_rank(run: Trajectory, log: bool | None = None) -> Figure:
    """Effective rank of the token matrix against time."""
    figure, ax = new_figure()
    ranks = np.array([effective_rank(frame) for frame in run.frames])
    ax.plot(run.times, ranks, color=CATEGORIES[3], lw=1.6)
    ax.set_ylabel("effective rank")
    ax.set_ylim(min(1.0, ranks.min()) - 0.05, 1.05 * max(ranks.max(), 1.2))
    time_axis(ax, run.times, run.clock, log)
    most = min(run.frames[0].count, run.frames[0].dim)
    figure.set_label(
        f"Effective rank of the tokens, between 1 (one direction) and {most}. Time in the "
        f"{run.clock} clock."
    )
    return figure


def _some(frame: Points) -> Points:
    if frame.count <= MOST_TOKENS:
        return frame
    points, weights, _ = carrying(frame)
    kept = np.random.default_rng(0).permutation(len(weights))[:MOST_TOKENS]
    return Points(points[kept], weights[kept], on_sphere=frame.on_sphere)


def _edges(times: np.ndarray) -> np.ndarray:
    """Borders between frames, half way; the first and last frame are cut at themselves."""
    return np.concatenate([times[:1], (times[1:] + times[:-1]) / 2, times[-1:]])
