"""Results and figures of learning experiments and Gaussian studies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from metastable.comparison.random_matrices import Iteration
from metastable.core.answer import Answer
from metastable.core.figure import Figure
from metastable.core.result import Result
from metastable.core.spec import Spec
from metastable.core.verdict import Comparison
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


def result_of(spec: Spec, answer: Answer) -> Result:
    """The result of a study: its answer with pictures and datasets."""
    return Result(
        spec=spec,
        outcome=answer.outcome,
        facts=answer.facts,
        verdicts=Comparison(answer.verdicts, "none"),
        data={name: _dataset(value) for name, value in answer.data.items()},
        figures=figures_of_study(answer.figures),
        sentence=answer.sentence,
    )


def _dataset(value: Any) -> xarray.Dataset:
    """Arrays by label; a label may be any words, so that it stands in the attributes."""
    labelled = value if isinstance(value, Mapping) else {"values": value}
    arrays = {f"array{k}": np.asarray(array) for k, array in enumerate(labelled.values())}
    return xarray.Dataset(
        {
            name: ([f"{name}_axis{k}" for k in range(array.ndim)], array, {"label": str(label)})
            for (name, array), label in zip(arrays.items(), labelled, strict=True)
        }
    )
