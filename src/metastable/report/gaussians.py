"""Figures of Gaussian studies: errors against N, spectra by layer, spectra beside their laws."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from metastable.comparison.random_matrices import Iteration, Spectrum, Track, Verification
from metastable.report.style import CATEGORIES, INK, OTHER, legend, new_figure
from metastable.theory.fits import MatrixFit
from metastable.theory.matrices import Law

__all__ = [
    "draw_attention_errors",
    "draw_distances",
    "draw_effective_tokens",
    "draw_fit",
    "draw_iteration",
    "draw_sample_errors",
    "draw_spectra",
]

BLUE, ORANGE, GREEN, RED = CATEGORIES[0], CATEGORIES[1], CATEGORIES[2], CATEGORIES[5]


def draw_sample_errors(found: Verification) -> Figure:
    """Errors of the affine map on samples against N, in the band that theory gives."""
    series = found.affine
    n = np.array([row.samples for row in series.rows])
    figure, axes = new_figure(1, 2, size=(7.2, 3.0))
    for ax, name, title in zip(axes[0], ("mean", "cov"), ("mean", "covariance"), strict=True):
        bands = np.array([getattr(row.expected, f"{name}_band") for row in series.rows])
        law = [getattr(row.expected, name) for row in series.rows]
        ax.fill_between(n, *bands.T, color=BLUE, alpha=0.25, lw=0, label="95 % of the errors")
        ax.plot(n, law, color=BLUE, lw=1.4, label=r"theory, $\propto N^{-1/2}$")
        each = [getattr(row, f"{name}_each") for row in series.rows]
        places = np.repeat(n, [len(errors) for errors in each])
        ax.plot(places, np.concatenate(each), "o", color=RED, ms=3, mew=0, label="samples")
        ax.set(xscale="log", yscale="log", xlabel="samples N", title=title)
    axes[0, 0].set_ylabel("relative error")
    legend(axes[0, 1], loc="upper right")
    figure.set_label(
        f"Errors of the empirical mean and covariance of N samples moved by the affine map of the "
        f"layer (d = {series.dim}, d_k = {series.keys}), and the law of these errors."
    )
    return figure


def draw_attention_errors(found: Verification) -> Figure:
    """Errors of genuine softmax attention on N tokens, calm and as drawn."""
    figure, axes = new_figure(1, 2, size=(7.2, 3.0))
    names = {"mean": BLUE, "cov": ORANGE, "velocity": GREEN}
    shown = {"mean": "mean", "cov": "covariance", "velocity": "velocity"}
    for ax, series in zip(axes[0], (found.calm, found.loud), strict=True):
        n = np.array([row.samples for row in series.rows])
        for name, colour in names.items():
            errors = np.array([getattr(row, name) for row in series.rows])
            ax.plot(n, errors, "o-", color=colour, ms=3.5, lw=1.2, mew=0, label=shown[name])
        first = series.rows[0].cov
        ax.plot(n, first * (n / n[0]) ** -0.5, "--", color=OTHER, lw=1, label=r"$N^{-1/2}$")
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="tokens N",
            title=f"d = {series.dim}, logits ± {series.deviation:.2g}",
        )
    axes[0, 0].set_ylabel("relative error")
    legend(axes[0, 0], loc="lower left")
    figure.set_label(
        "Attention among N tokens against the closed form of the layer. Left: logits scaled until "
        "99 % of the tokens see a logit variance below 1. Right: the layer as drawn."
    )
    return figure


def draw_effective_tokens(found: Verification) -> Figure:
    """How many tokens a softmax averages, against N."""
    figure, ax = new_figure()
    for series, colour in ((found.calm, BLUE), (found.loud, RED)):
        n = [row.samples for row in series.rows]
        label = f"logits ± {series.deviation:.2g}"
        ax.plot(n, [r.effective for r in series.rows], "o", color=colour, ms=4, mew=0, label=label)
        ax.plot(n, [r.effective_expected for r in series.rows], color=colour, lw=1.2)
    ax.set(xscale="log", yscale="log", xlabel="tokens N", ylabel=r"$1/\Sigma_j p_{ij}^2$")
    legend(ax, loc="upper left")
    figure.set_label(
        "Effective number of tokens behind one attention average (median over tokens; lines: "
        "random energy model). Where it does not grow with N, no N reaches the closed form."
    )
    return figure


def draw_iteration(found: Iteration) -> Figure:
    """Last spectra, as published and exact, and the extreme eigenvalues layer by layer."""
    setting = found.setting
    figure, axes = new_figure(1, 3, size=(9.6, 3.0))
    for ax, track, colour in zip(
        axes[0], (found.published, found.exact), (RED, BLUE), strict=False
    ):
        _histogram(ax, track.eigenvalues[-1], colour)
        if track.law is not None:
            _law(ax, track.law)
            ax.text(
                0.97,
                0.95,
                f"distance from\nMarchenko–Pastur\n{track.distance:.3f}",
                transform=ax.transAxes,
                ha="right",
                va="top",
                color=INK,
                fontsize=8.5,
            )
        ax.set_title(f"{track.title}\nlayer {track.layers[-1]}")
    axes[0, 0].set_ylabel("density")
    ax = axes[0, 2]
    styles = ((RED, "-"), (BLUE, "-"), (GREEN, "--"))
    ax.set_autoscaley_on(False)  # its margins overflow next to the largest numbers
    for track, (colour, dash) in zip(found.tracks, styles, strict=False):
        _extremes(ax, track, colour, dash)
    _scale(ax)
    ax.set(xlabel="layer", title="largest and smallest eigenvalue")
    legend(ax, loc="best")
    cut = f" It has negative eigenvalues from layer {found.published.negative_at} on."
    figure.set_label(
        f"{setting.name}: d = {setting.dim}, d_k = {setting.keys}, step {setting.step:g}; "
        f"{setting.description}. Left: as published ({found.published.title})."
        f"{cut if found.published.negative_at else ''} Middle: the exact layer."
    )
    return figure


def _extremes(ax: Axes, track: Track, colour: str, dash: str) -> None:
    largest = np.array([values[-1] for values in track.eigenvalues])
    smallest = np.array([values[0] for values in track.eigenvalues])
    # Next to a much larger one an eigenvalue is rounding: squared singular values keep 1e−32.
    smallest = np.where(np.abs(smallest) > 1e-30 * largest, smallest, np.nan)
    layers = np.array(track.layers)
    ax.plot(layers, largest, dash, color=colour, lw=1.4, label=track.title)
    ax.set_yscale("log")
    below = smallest < 0
    ax.plot(layers[~below], smallest[~below], dash, color=colour, lw=0.8, alpha=0.7)
    if below.any():
        ax.plot(layers[below], -smallest[below], "x", color=colour, ms=4, label="minus a negative")


def _scale(ax: Axes) -> None:
    """Limits and ticks that stay inside floating point, where explosions do not leave much room."""
    shown = np.concatenate([np.asarray(line.get_ydata(), float) for line in ax.get_lines()])
    powers = np.log10(shown[shown > 0])
    low, high = float(powers.min()), float(powers.max())
    room = 0.05 * (high - low) + 0.1
    low, high = max(low - room, -307.0), min(high + room, 308.0)
    ax.set_ylim(10.0**low, 10.0**high)
    if high - low > 12:
        every = next(n for n in (2, 5, 10, 20, 50, 100) if (high - low) / n < 8)
        ticks = range(math.ceil(low / every) * every, math.floor(high) + 1, every)
        ax.yaxis.set_major_locator(FixedLocator([10.0**k for k in ticks]))
        ax.yaxis.set_minor_locator(NullLocator())


def draw_spectra(found: list[Spectrum]) -> Figure:
    """Each spectrum at its largest size, and its law."""
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    figure, axes = new_figure(rows, columns, size=(3.2 * columns, 2.6 * rows))
    for ax, one in zip(np.ravel(axes), found, strict=False):
        inside = one.values[~np.isin(one.values, one.outliers)]
        _histogram(ax, inside, BLUE, one.description.split(",")[0].removesuffix("s"))
        _law(ax, one.law)
        title = f"{one.name}, n = {one.sizes[-1]}"
        if one.outliers.size:
            title += f"\n(outlier at {one.outliers[-1]:.4g} not shown)"
        ax.set_title(title)
        ax.text(
            0.97,
            0.95,
            f"{one.distances[-1]:.4f}",
            transform=ax.transAxes,
            ha="right",
            va="top",
            color=INK,
            fontsize=8.5,
        )
    for ax in np.ravel(axes)[len(found) :]:
        ax.set_visible(False)
    figure.set_label(
        "Spectra of random matrices, their limit laws (lines), and the Kolmogorov distances."
    )
    return figure


def draw_distances(found: list[Spectrum]) -> Figure:
    """Kolmogorov distance against size."""
    figure, ax = new_figure(size=(5.4, 3.4))
    # A matrix that is only scaled keeps its distance: one line for both.
    same: dict[tuple, list[Spectrum]] = {}
    for one in found:
        same.setdefault(tuple(np.round(one.distances, 9)), []).append(one)
    for group, colour in zip(same.values(), [*CATEGORIES, OTHER], strict=False):
        name = ",\n".join(one.name for one in group)
        ax.plot(group[0].sizes, group[0].distances, "o-", color=colour, ms=3.5, lw=1.1, label=name)
    n = np.array(found[0].sizes, float)
    ax.plot(n, 2.5 / n, "--", color=INK, lw=0.8, label="2.5/n")
    ax.set(xscale="log", yscale="log", xlabel="size n", ylabel="Kolmogorov distance")
    ax.xaxis.set_major_locator(FixedLocator(n.tolist()))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_locator(NullLocator())
    legend(ax, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.set_label("Distance of each spectrum from its limit law, one matrix per size.")
    return figure


def draw_fit(fit: MatrixFit, name: str) -> Figure:
    """The spectrum of a given matrix, the law of its entries' variance and the fitted one."""
    figure, ax = new_figure()
    inside = fit.values[~np.isin(fit.values, fit.outliers)]
    squared = "squared singular value / longer side"
    _histogram(ax, inside, BLUE, "eigenvalue" if fit.values[0] < 0 else squared)
    _law(ax, fit.expected, OTHER, "variance of the entries", "--")
    _law(ax, fit.fitted, RED, f"fitted, distance {fit.fitted_distance:.3f}")
    ax.set_ylabel("density")
    legend(ax, loc="upper right")
    figure.set_label(f"{name}: spectrum and law; {fit.outliers.size} outliers are not shown.")
    return figure


def _histogram(ax: Axes, values: np.ndarray, colour: str, what: str = "eigenvalue") -> None:
    scale = max(abs(float(values[0])), abs(float(values[-1])), 1.0)
    # A density of values near 1e60 would be lost: the power of ten goes to the label.
    power = int(np.log10(scale)) if scale > 1e5 else 0
    heights, edges = np.histogram(values / 10.0**power, bins=50, density=True)
    ax.stairs(heights, edges, fill=True, color=colour, alpha=0.45)
    ax.set_xlabel(f"{what} / $10^{{{power}}}$" if power else what)


def _law(ax: Axes, law: Law, colour: str = RED, label: str | None = None, dash: str = "-") -> None:
    low, high = law.edges
    # Quadratic spacing towards both ends, where densities rise or end steeply.
    s = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 801)[1:-1])
    x = low + (high - low) * s
    top = ax.get_ylim()[1]
    ax.plot(x, law.density(x), dash, color=colour, lw=1.4, label=label)
    ax.set_ylim(0, top)
