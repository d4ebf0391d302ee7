"""Figures of learning experiments and Gaussian studies, by what they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metastable.comparison.random_matrices import Iteration
from metastable.core.figure import Figure
from metastable.learn.curves import Chart, Curves, Frames
from metastable.report.figures.gaussian import (
    plot_attention_errors,
    plot_distances,
    plot_effective_tokens,
    plot_fit,
    plot_iteration,
    plot_sample_errors,
    plot_spectra,
)
from metastable.report.figures.learning import film_frames, plot_chart, plot_curves, plot_frames
from metastable.theory.fits import MatrixFit

__all__ = ["figures_of_study"]

# Those of one Gaussian study show all of it, and go by their names.
GAUSSIAN = {
    "samples": plot_sample_errors,
    "attention": plot_attention_errors,
    "tokens": plot_effective_tokens,
    "spectra": plot_spectra,
    "distances": plot_distances,
}


def figures_of_study(shown: Mapping[str, Any]) -> dict[str, Figure]:
    """Pictures as data, of curves, charts, frames (which have a film too) and Gaussian studies."""
    figures: dict[str, Figure] = {}
    for name, value in shown.items():
        if isinstance(value, Curves):
            figures[name] = plot_curves(value)
        elif isinstance(value, Frames):
            figures |= {name: plot_frames(value), f"{name}-film": film_frames(value)}
        elif isinstance(value, Chart):
            figures[name] = plot_chart(value)
        elif isinstance(value, Iteration):
            figures[name] = plot_iteration(value)
        elif isinstance(value, MatrixFit):
            figures[name] = plot_fit(value, name)
        else:
            figures[name] = GAUSSIAN[name](value)
    return figures
