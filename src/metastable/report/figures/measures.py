"""One measure: where its mass is."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.figure import Axis, Cloud, Figure, Histogram, Lines, Series
from metastable.geometry.harmonics import values_on_circle
from metastable.measures import Density, Gaussian
from metastable.measures.spectral.zonal import polynomials
from metastable.observe.similarity import pairwise_similarity
from metastable.report.figures.density import map_of
from metastable.report.figures.run import snapshot, thinned, view_of

SMALL, WIDE = (2.9, 3.1), (4.2, 2.6)


def plot_measure(measure: Any, title: str = "", view: Any = None) -> Figure:
    """Tokens as dots, or the cosines of their pairs past three dimensions; a density; ellipses.

    `view`: from where S² is seen, see `view_of`.
    """
    if isinstance(measure, Gaussian):
        return _gaussian(measure, title)
    if isinstance(measure, Density):
        return _density(measure, title)
    caption = f"{measure!r}."
    if measure.on_sphere and measure.dim <= 3:
        cloud = snapshot(measure, None, view_of(measure) if view is None else view, title)
        return Cloud(cloud.points, cloud.space, cloud.groups, cloud.masses, view=cloud.view,
                     title=title, size=SMALL, caption=caption)  # fmt: skip
    if measure.on_sphere or measure.dim > 3:
        cosines = pairwise_similarity(thinned(measure))[0] if measure.count > 1 else np.ones(1)
        axis = Axis("cosine of pairs of tokens", limits=(-1.05, 1.05))
        return Histogram.of({"": cosines}, axis, count=np.linspace(-1, 1, 81), title=title,
                            size=WIDE, caption=caption)  # fmt: skip
    points = np.asarray(measure.points)
    if measure.dim == 1:
        bins = {"": points.ravel()}
        return Histogram.of(bins, Axis("$x$"), title=title, size=WIDE, caption=caption)
    x, y = Axis("$x_1$"), Axis("$x_2$")
    return Cloud(points, "plane" if measure.dim == 2 else "space", masses=measure.weights, x=x, y=y,
                 title=title, size=SMALL, caption=caption)  # fmt: skip


def _density(measure: Density, title: str) -> Figure:
    caption = f"{measure!r}: density relative to uniform."
    if measure.zonal:
        places = np.linspace(0, np.pi, 257)
        waves = polynomials(np.cos(places), measure.dim, measure.degree)
        values, label = np.asarray(measure.coefficients) @ waves, "angle from the axis"
    elif measure.dim == 2:
        size = max(512, 2 * measure.degree + 2)
        places = 2 * np.pi * np.arange(size) / size - np.pi
        values = np.fft.fftshift(values_on_circle(measure.coefficients, size))
        label = "angle θ"
    else:
        return map_of(measure, title, caption=caption, size=(4.4, 2.5))
    x, y = Axis(label, unit="rad", ticks="pi"), Axis("density / uniform", limits=(0.0, None))
    line = [Series("", places, values)]
    return Lines(x, y, line, title=title, size=WIDE, caption=caption)


def _gaussian(measure: Gaussian, title: str) -> Figure:
    mean, cov = np.asarray(measure.mean), np.asarray(measure.cov)
    if measure.dim == 1:
        deviation = max(float(np.sqrt(cov[0, 0])), 1e-300)
        steps = np.linspace(-4, 4, 201)
        heights = np.exp(-(steps**2) / 2) / (deviation * np.sqrt(2 * np.pi))
        line = [Series("", mean[0] + deviation * steps, heights)]
        axes = Axis("$x$"), Axis("density", limits=(0.0, None))
        return Lines(*axes, line, title=title, size=WIDE, caption=f"{measure!r}.")
    values, vectors = np.linalg.eigh(cov[:2, :2])
    turn = np.linspace(0, 2 * np.pi, 181)
    circle = vectors * np.sqrt(np.maximum(values, 0)) @ np.stack([np.cos(turn), np.sin(turn)])
    series = [
        Series(f"{k} deviation{'s' * (k > 1)}", *(mean[:2, None] + k * circle), shade=1 - k / 3)
        for k in (1, 2, 3)
    ]
    series.append(Series("mean", mean[:1], mean[1:2], style="points", marker="cross", group=-1))
    plane = "" if measure.dim == 2 else " in its first two axes"
    axes, caption = (Axis("$x_1$"), Axis("$x_2$")), f"{measure!r}{plane}: 1, 2, 3 deviations."
    size, legend = (3.4, 3.1), False
    return Lines(*axes, series, title=title, equal=True, legend=legend, size=size, caption=caption)
