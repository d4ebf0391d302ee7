"""Noise against attraction: branches of stationary densities, and the (β, κ) phase diagram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from metastable.core.figure import Axis, Lines, Panels, Series
from metastable.theory.branches import Branch, Transition

TOP = 1.6  # κ/κ_# at the top of phase diagrams
RATIO = r"$\kappa\,/\,\kappa_\#$"


def plot_branches(branches: Sequence[Branch]) -> Panels:
    """Alignment and free energy along branches in κ, a color for each β; solid where stable."""
    alignment, energy = [], []
    for branch, shade in zip(branches, np.linspace(0, 1, max(len(branches), 2)), strict=False):
        kappa = branch.kappas / branch.kappas[0]
        stable = branch.rates() < 0
        look: dict[str, Any] = {"shade": float(shade), "scale": "beta"}
        name = f"{branch.betas[0]:g}"
        alignment += _pieces(name, kappa, branch.alignments, stable, **look)
        energy += _pieces("", kappa, branch.kappas * branch.free_energies, stable, **look)
        for marker, states in (("circle", branch.turns), ("diamond", branch.ties)):
            for _, at, state in states:
                x, dot = [at / branch.kappas[0]], {"style": "points", "marker": marker, **look}
                alignment.append(Series("", x, [state.alignment], **dot))
                energy.append(Series("", x, [at * state.free_energy], **dot))
    places = np.concatenate([branch.kappas / branch.kappas[0] for branch in branches])
    air = 0.05 * np.ptp(places)
    low, high = float(places.min() - air), float(places.max() + air)
    uniform = np.array([low, 1, high]), np.zeros(3), np.array([True, True, False])
    alignment += _pieces("", *uniform, group=-1)
    energy += _pieces("", *uniform, group=-1)
    folds = [at * state.free_energy for branch in branches for _, at, state in branch.turns]
    highest = max(folds, default=0.0)
    # The swallowtail of a discontinuous transition is small.
    limits = (-4 * highest, 1.3 * highest) if highest > 0 else (None, None)
    x = Axis(RATIO, limits=(low, high))
    free = Axis(r"free energy $\kappa\,(F - F_{\rm uniform})$", limits=limits)
    left = Lines(x, Axis(r"alignment $\langle x, e\rangle$"), alignment, names="β")
    caption = "Stationary densities with noise: mean alignment and free energy against κ over its "
    caption += "critical value. Solid lines are stable, dashed ones unstable, gray is uniform; "
    caption += "dots are folds, diamonds where the free energy is that of the uniform measure."
    return Panels([left, Lines(x, free, energy)], 2, size=(7.4, 3.1), caption=caption)


def plot_phases(tables: Mapping[str, Sequence[Transition]]) -> Panels:
    """Where the uniform density, the ordered one, or both are stable; a panel for each table."""
    ratios = [[t.kappa_ordered / t.kappa_uniform for t in table] for table in tables.values()]
    low = 0.8 * min(min(ratio) for ratio in ratios)
    panels = []
    for (title, table), ordered in zip(tables.items(), ratios, strict=True):
        beta, ones = [t.beta for t in table], np.ones(len(table))
        regions = {"uniform": (-1, low * ones, ordered), "both": (1, ordered, ones)}
        regions["ordered"] = (0, ones, TOP * ones)
        series = []
        for name, (group, *band) in regions.items():
            look: dict[str, Any] = {"band": np.array(band), "style": "band", "group": group}
            series.append(Series(name, beta, ones, **look))
        series.append(Series("", beta, ones, role="theory", dash="solid"))
        if any(t.jump for t in table):
            equal = [t.kappa_equal / t.kappa_uniform for t in table]
            series.append(Series("", beta, ordered, group=5))
            series.append(Series("", beta, equal, role="theory", dash="dashed"))
        places = [p for p in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if p > low]
        y = Axis(RATIO, scale="log", limits=(low, TOP), places=places)
        x = Axis("β", limits=(beta[0], beta[-1]))
        panels.append(Lines(x, y, series, title=title))
    caption = "Which stationary densities are stable: uniform (gray), ordered (blue) or both "
    caption += "(orange, hysteresis), against β and κ over the κ at which uniform ends (black "
    caption += "line). Ordered ones begin at the fold (vermilion) and have the lower free energy "
    caption += "above the dashed line."
    size = (0.9 + 2.3 * len(panels), 3.2)
    return Panels(panels, len(panels), shared=True, size=size, caption=caption)


def _pieces(name: str, x: Any, y: Any, stable: np.ndarray, **look: Any) -> list[Series]:
    """A curve, solid where it leads to stable states and dashed elsewhere; one piece is named."""
    solid = stable[1:]
    ends = np.r_[0, 1 + np.flatnonzero(np.diff(solid)), len(solid)]
    pieces = [(slice(a, b + 1), bool(solid[a])) for a, b in pairwise(ends)]
    named = next((k for k, (_, firm) in enumerate(pieces) if firm), 0)
    series = []
    for k, (piece, firm) in enumerate(pieces):
        dash, width = ("solid", 1.6) if firm else ("dashed", 1.2)
        label = name if k == named else ""
        series.append(Series(label, x[piece], y[piece], dash=dash, width=width, **look))
    return series
