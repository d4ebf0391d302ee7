"""Figures of a Gaussian that moves."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series, time_axis
from metastable.flows import Trajectory
from metastable.measures import Gaussian

__all__ = ["plot_moments"]


def plot_moments(run: Trajectory) -> Lines:
    """Eigenvalues of the covariance, at most sixteen of them, and the size of the mean in time."""
    frames = [frame for frame in run.frames if isinstance(frame, Gaussian)]
    times = np.asarray(run.times, float)[: len(frames)]
    values = np.array([frame.eigenvalues for frame in frames])
    shown = np.unique(np.linspace(0, values.shape[1] - 1, 16).astype(int))
    sizes = np.array([np.linalg.norm(frame.mean) for frame in frames])
    series = [
        Series(
            "" if k else "eigenvalues of the covariance", times, _above_zero(values[:, at]), group=0
        )
        for k, at in enumerate(shown)
    ]
    series.append(Series(r"$\|m\|$", times, _above_zero(sizes), group=5))
    return Lines(
        time_axis(times, run.clock),
        Axis("size", scale="log"),
        series,
        caption=f"A Gaussian under attention ({run.clock} clock): eigenvalues of its covariance, "
        "and the size of its mean.",
    )


def _above_zero(series: np.ndarray) -> np.ndarray:
    """A series for a logarithmic axis: zeros are left out."""
    return np.where(series > 0, series, np.nan)
