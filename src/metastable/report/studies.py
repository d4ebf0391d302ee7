"""Results and figures of learning experiments and Gaussian studies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray

from metastable.comparison.random_matrices import Iteration
from metastable.core.figure import Figure
from metastable.core.result import Answer, Result
from metastable.core.spec import Spec
from metastable.core.verdict import Comparison
from metastable.learn.curves import Chart, Curves, Frames
from metastable.report.figures import gaussian, learning
from metastable.theory.fits import MatrixFit

# What is drawn of each class; frames have a film too.
DRAWN = {Curves: learning.plot_curves, Chart: learning.plot_chart, Frames: learning.plot_frames}
DRAWN |= {Iteration: gaussian.plot_iteration}
# Those of one Gaussian study show all of it, and go by their names.
GAUSSIAN = {
    "samples": gaussian.plot_sample_errors,
    "attention": gaussian.plot_attention_errors,
    "tokens": gaussian.plot_effective_tokens,
    "spectra": gaussian.plot_spectra,
    "distances": gaussian.plot_distances,
}


def figures_of_study(shown: Mapping[str, Any]) -> dict[str, Figure]:
    """Pictures as data, of curves, charts, frames (which have a film too) and Gaussian studies."""
    figures: dict[str, Figure] = {}
    for name, value in shown.items():
        if isinstance(value, MatrixFit):
            figures[name] = gaussian.plot_fit(value, name)
        else:
            figures[name] = (DRAWN.get(type(value)) or GAUSSIAN[name])(value)
        if isinstance(value, Frames):
            figures[f"{name}-film"] = learning.film_frames(value)
    return figures


def result_of_study(spec: Spec, answer: Answer) -> Result:
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
    variables = {}
    for number, (label, given) in enumerate(labelled.items()):
        name, array = f"array{number}", np.asarray(given)
        axes = [f"{name}_axis{k}" for k in range(array.ndim)]
        variables[name] = (axes, array, {"label": str(label)})
    return xarray.Dataset(variables)
