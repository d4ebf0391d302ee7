"""Figures of Gaussians: their moments in time, errors against N, spectra beside their laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metastable.comparison.random_matrices import Iteration, Spectrum, Track, Verification
from metastable.core.figure import Axis, Figure, Histogram, Lines, Panels, Series, time_axis
from metastable.flows import Trajectory
from metastable.measures import Gaussian
from metastable.theory.fits import MatrixFit
from metastable.theory.matrices import Law

BLUE, GREEN, RED = 0, 2, 5  # numbers of colors
ERROR = Axis("relative error", scale="log")


def plot_moments(run: Trajectory) -> Lines:
    """Eigenvalues of the covariance, at most sixteen of them, and the size of the mean in time."""
    frames = [frame for frame in run.frames if isinstance(frame, Gaussian)]
    times = np.asarray(run.times, float)[: len(frames)]
    values = np.array([frame.eigenvalues for frame in frames])
    shown = np.unique(np.linspace(0, values.shape[1] - 1, 16).astype(int))
    sizes = np.array([np.linalg.norm(frame.mean) for frame in frames])
    positive = lambda y: np.where(y > 0, y, np.nan)  # zeros are left out of a logarithmic axis
    series = [Series("", times, positive(values[:, k]), group=0) for k in shown]
    series[0] = replace(series[0], label="eigenvalues of the covariance")
    series.append(Series(r"$\|m\|$", times, positive(sizes), group=5))
    caption = f"A Gaussian under attention ({run.clock} clock): eigenvalues of its covariance, "
    caption += "and the size of its mean."
    return Lines(time_axis(times, run.clock), Axis("size", scale="log"), series, caption=caption)


def plot_sample_errors(result: Verification) -> Panels:
    """Errors of the affine map on samples against N, in the band that theory gives."""
    rows = result.affine.rows
    n = np.array([row.samples for row in rows])
    panels = []
    for name, title in (("mean", "mean"), ("cov", "covariance")):
        bands = np.array([getattr(row.expected, f"{name}_band") for row in rows])
        law = [getattr(row.expected, name) for row in rows]
        each = [getattr(row, f"{name}_each") for row in rows]
        places = np.repeat(n, [len(errors) for errors in each])
        series = [
            Series("95 % of the errors", n, law, band=bands.T, style="band", group=BLUE),
            Series(r"theory, $\propto N^{-1/2}$", n, law, group=BLUE),
            Series("samples", places, np.concatenate(each), style="points", group=RED),
        ]
        panels.append(Lines(Axis("samples N", scale="log"), ERROR, series, title=title))
    caption = "Errors of the empirical mean and covariance of N samples moved by the affine map of "
    caption += f"the layer (d = {result.affine.dim}, d_k = {result.affine.keys}), and the law of "
    caption += "these errors."
    return Panels(panels, 2, shared=True, size=(7.2, 3.2), caption=caption)


def plot_attention_errors(result: Verification) -> Panels:
    """Errors of genuine softmax attention on N tokens, calm and as drawn."""
    panels = []
    for errors in (result.calm, result.loud):
        n = np.array([row.samples for row in errors.rows])
        series = []
        for name, label in (("mean", "mean"), ("cov", "covariance"), ("velocity", "velocity")):
            values = [getattr(row, name) for row in errors.rows]
            series.append(Series(label, n, values, style="both"))
        law = errors.rows[0].cov * (n / n[0]) ** -0.5
        series.append(Series(r"$N^{-1/2}$", n, law, role="theory", group=-1))
        title = f"d = {errors.dim}, logits ± {errors.deviation:.2g}"
        panels.append(Lines(Axis("tokens N", scale="log"), ERROR, series, title=title))
    caption = "Attention among N tokens against the closed form of the layer. Left: logits scaled "
    caption += "until 99 % of the tokens see a logit variance below 1. Right: the layer as drawn."
    return Panels(panels, 2, shared=True, size=(7.2, 3.2), caption=caption)


def plot_effective_tokens(result: Verification) -> Lines:
    """How many tokens a softmax averages, against N."""
    series = []
    for errors, group in ((result.calm, BLUE), (result.loud, RED)):
        n = [row.samples for row in errors.rows]
        label = f"logits ± {errors.deviation:.2g}"
        effective = [row.effective for row in errors.rows]
        expected = [row.effective_expected for row in errors.rows]
        series.append(Series(label, n, effective, style="points", group=group))
        series.append(Series("", n, expected, role="theory", dash="solid", group=group))
    axes = Axis("tokens N", scale="log"), Axis(r"$1/\Sigma_j p_{ij}^2$", scale="log")
    caption = "Effective number of tokens behind one attention average (median over tokens; lines: "
    caption += "random energy model). Where it does not grow with N, no N reaches the closed form."
    return Lines(*axes, series, caption=caption)


def plot_iteration(result: Iteration) -> Panels:
    """Last spectra, as published and exact, and the extreme eigenvalues layer by layer."""
    setting = result.setting
    panels: list[Figure] = []
    for track, group in ((result.published, RED), (result.exact, BLUE)):
        rest: dict[str, Any] = {"group": group}
        if track.law is not None:
            rest["laws"] = [_law(track.law)]
            rest["note"] = f"distance from\nMarchenko–Pastur\n{track.distance:.3f}"
        title = f"{track.title}\nlayer {track.layers[-1]}"
        y = Axis("" if panels else "density")
        panels.append(_spectrum(track.eigenvalues[-1], "eigenvalue", title=title, y=y, **rest))
    looks = ((RED, "solid"), (BLUE, "solid"), (GREEN, "dashed"))
    series = []
    for track, (group, dash) in zip(result.tracks, looks, strict=False):
        series += _extremes(track, group, dash)
    title = "largest and smallest eigenvalue"
    panels.append(Lines(Axis("layer"), Axis("", scale="log"), series, title=title))
    caption = f"{setting.name}: d = {setting.dim}, d_k = {setting.keys}, step {setting.step:g}; "
    caption += f"{setting.description}. Left: as published ({result.published.title})."
    if result.published.negative_at:
        caption += f" It has negative eigenvalues from layer {result.published.negative_at} on."
    caption += " Middle: the exact layer."
    return Panels(panels, len(panels), size=(3.2 * len(panels), 3.0), caption=caption)


def _extremes(track: Track, group: int, dash: str) -> list[Series]:
    largest = np.array([values[-1] for values in track.eigenvalues])
    smallest = np.array([values[0] for values in track.eigenvalues])
    # Next to a much larger one an eigenvalue is rounding: squared singular values keep 1e−32.
    smallest = np.where(np.abs(smallest) > 1e-30 * largest, smallest, np.nan)
    layers, below = np.array(track.layers), smallest < 0
    thin: dict[str, Any] = {"group": group, "dash": dash, "width": 0.8}
    series = [Series(track.title, layers, largest, group=group, dash=dash)]
    series.append(Series("", layers[~below], smallest[~below], **thin))
    if below.any():
        cross: dict[str, Any] = {"style": "points", "marker": "cross", "group": group}
        series.append(Series("minus a negative", layers[below], -smallest[below], **cross))
    return series


def plot_spectra(spectra: Sequence[Spectrum]) -> Panels:
    """Each spectrum at its largest size, and its law; the distance of the two in a corner."""
    columns = min(3, len(spectra))
    rows = -(-len(spectra) // columns)
    panels = []
    for k, spectrum in enumerate(spectra):
        title = f"{spectrum.name}, n = {spectrum.sizes[-1]}"
        if spectrum.outliers.size:
            title += f"\n(outlier at {spectrum.outliers[-1]:.4g} not shown)"
        values = spectrum.values[~np.isin(spectrum.values, spectrum.outliers)]
        label = spectrum.description.split(",")[0].removesuffix("s")
        note, y = f"{spectrum.distances[-1]:.4f}", Axis("" if k % columns else "density")
        rest = {"laws": [_law(spectrum.law)], "title": title, "note": note, "y": y}
        panels.append(_spectrum(values, label, **rest))
    caption = "Spectra of random matrices, their limit laws (lines), and the Kolmogorov distances."
    return Panels(panels, columns, size=(3.2 * columns, 2.6 * rows), caption=caption)


def plot_distances(spectra: Sequence[Spectrum]) -> Lines:
    """Kolmogorov distance against size."""
    # A matrix that is only scaled keeps its distance: one line for both.
    same: dict[tuple, list[Spectrum]] = {}
    for spectrum in spectra:
        same.setdefault(tuple(np.round(spectrum.distances, 9)), []).append(spectrum)
    series = []
    for group in same.values():
        label = ",\n".join(spectrum.name for spectrum in group)
        series.append(Series(label, group[0].sizes, group[0].distances, style="both"))
    n = np.array(spectra[0].sizes, float)
    series.append(Series("2.5/n", n, 2.5 / n, role="theory"))
    axes = Axis("size n", scale="log", places=n.tolist()), Axis("Kolmogorov distance", scale="log")
    caption = "Distance of each spectrum from its limit law, one matrix per size."
    return Lines(*axes, series, size=(5.4, 3.4), caption=caption)


def plot_fit(fit: MatrixFit, name: str) -> Histogram:
    """The spectrum of a given matrix, the law of its entries' variance and the fitted one."""
    values = fit.values[~np.isin(fit.values, fit.outliers)]
    label = "eigenvalue" if fit.values[0] < 0 else "squared singular value / longer side"
    expected = _law(fit.expected, "variance of the entries", group=-1, dash="dashed")
    laws = [expected, _law(fit.fitted, f"fitted, distance {fit.fitted_distance:.3f}")]
    caption = f"{name}: spectrum and law; {fit.outliers.size} outliers are not shown."
    return _spectrum(values, label, laws=laws, caption=caption)


def _spectrum(values: np.ndarray, label: str, **rest: Any) -> Histogram:
    scale = max(abs(float(values[0])), abs(float(values[-1])), 1.0)
    # A density of values near 1e60 would be lost: the power of ten goes to the label.
    power = int(np.log10(scale)) if scale > 1e5 else 0
    axis = Axis(f"{label} / $10^{{{power}}}$" if power else label)
    return Histogram.of({"": values / 10.0**power}, axis, count=50, **rest)


def _law(law: Law, label: str = "", group: int = RED, dash: str = "solid") -> Series:
    low, high = law.edges
    # Quadratic spacing towards both ends, where densities rise or end steeply.
    s = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 801)[1:-1])
    x = low + (high - low) * s
    return Series(label, x, law.density(x), role="theory", group=group, dash=dash)
