"""Noise against attraction: branches of stationary densities, and the (β, κ) phase diagram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from metastable.report.style import BETA, CATEGORIES, INK, OTHER, legend, new_figure
from metastable.theory.branches import Branch, Transition

__all__ = ["draw_branches", "draw_phases"]

_TOP = 1.6  # κ/κ_# at the top of phase diagrams
_RATIO = r"$\kappa\,/\,\kappa_\#$"


def draw_branches(branches: Sequence[Branch]) -> Figure:
    """Alignment and free energy along branches in κ, a colour for each β; solid where stable."""
    figure, axes = new_figure(1, 2, size=(7.4, 3.1))
    alignment, energy = axes[0]
    colours = BETA(np.linspace(0, 1, max(len(branches), 2)))
    for branch, colour in zip(branches, colours, strict=False):
        kappa = branch.kappas / branch.kappas[0]
        stable = branch.rates() < 0
        _two_lines(alignment, kappa, branch.alignments, stable, colour)
        _two_lines(energy, kappa, branch.kappas * branch.free_energies, stable, colour)
        alignment.plot([], [], color=colour, lw=1.6, label=f"{branch.betas[0]:g}")
        for mark, found in (("o", branch.turns), ("D", branch.ties)):
            for _, at, state in found:
                x = at / branch.kappas[0]
                alignment.plot(x, state.alignment, mark, color=colour, ms=4, mec="none")
                energy.plot(x, at * state.free_energy, mark, color=colour, ms=4, mec="none")
    folds = [at * state.free_energy for branch in branches for _, at, state in branch.turns]
    highest = max(folds, default=0.0)
    if highest > 0:  # the swallowtail of a discontinuous transition is small
        energy.set_ylim(-4 * highest, 1.3 * highest)
    low, high = alignment.get_xlim()
    for ax in (alignment, energy):
        ax.set_xlim(low, high)
        _two_lines(ax, np.array([low, 1, high]), np.zeros(3), np.array([True, True, False]), OTHER)
        ax.set_xlabel(_RATIO)
    alignment.set_ylabel(r"alignment $\langle x, e\rangle$")
    energy.set_ylabel(r"free energy $\kappa\,(F - F_{\rm uniform})$")
    legend(alignment, title="β", loc="lower right", bbox_to_anchor=(1.0, 0.06))
    figure.set_label(
        "Stationary densities with noise: mean alignment and free energy against κ over its "
        "critical value. Solid lines are stable, dashed ones unstable, grey is uniform; dots are "
        "folds, diamonds where the free energy is that of the uniform measure."
    )
    return figure


def draw_phases(tables: Mapping[str, Sequence[Transition]]) -> Figure:
    """Where the uniform density, the ordered one, or both are stable; a panel for each table."""
    count = len(tables)
    figure, axes = new_figure(1, count, size=(0.7 + 2.3 * count, 3.0))
    panels = np.atleast_1d(axes).ravel()
    ratios = [[t.kappa_ordered / t.kappa_uniform for t in table] for table in tables.values()]
    low = 0.8 * min(min(ratio) for ratio in ratios)
    for ax, (title, table), ordered in zip(panels, tables.items(), ratios, strict=True):
        beta = [t.beta for t in table]
        equal = [t.kappa_equal / t.kappa_uniform for t in table]
        ax.fill_between(beta, low, ordered, color=OTHER, alpha=0.15, lw=0)
        ax.fill_between(beta, ordered, 1, color=CATEGORIES[1], alpha=0.5, lw=0)
        ax.fill_between(beta, 1, _TOP, color=CATEGORIES[0], alpha=0.35, lw=0)
        ax.plot(beta, np.ones(len(beta)), color=INK, lw=1.2)
        if any(t.jump for t in table):
            ax.plot(beta, ordered, color=CATEGORIES[5], lw=1.4)
            ax.plot(beta, equal, "--", color=INK, lw=1.0)
        ax.set(title=title, xlabel="β", xlim=(beta[0], beta[-1]), ylim=(low, _TOP), yscale="log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
        for height, word, side in ((0.96, "ordered", "top"), (0.04, "uniform", "bottom")):
            ax.text(0.06, height, word, transform=ax.transAxes, va=side, color=INK, fontsize=9)
    panels[0].set_ylabel(_RATIO)
    figure.set_label(
        "Which stationary densities are stable: uniform (grey), ordered (blue) or both (orange, "
        "hysteresis), against β and κ over the κ at which uniform ends (black line). Ordered ones "
        "begin at the fold (vermilion) and have the lower free energy above the dashed line."
    )
    return figure


def _two_lines(ax: Axes, x: np.ndarray, y: np.ndarray, stable: np.ndarray, colour: Any) -> None:
    """A curve, solid where it leads to stable states and dashed elsewhere."""
    solid = stable[1:]
    ends = np.r_[0, 1 + np.flatnonzero(np.diff(solid)), len(solid)]
    for first, last in pairwise(ends):
        piece, style = slice(first, last + 1), "-" if solid[first] else "--"
        ax.plot(x[piece], y[piece], style, color=colour, lw=1.6 if solid[first] else 1.2)
