"""The loop that keeps its first mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.comparison.random_matrices.draws import draw_layer
from metastable.core.verdict import judge
from metastable.flows import Layers, flow
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

from ._moments import sample_moments

ENTRY = Entry(
    title="The loop that keeps its first mean",
    places=["section 3.2.1, the loop"],
    claim="The printed loop repeats the transformation of a Gaussian by attention.",
    method=(
        "Iterate tokens as printed, adding WV times the mean of the start at every layer, and "
        "with the mean of each layer; compare both with the closed form."
    ),
    known="disagree",
    correction=(
        "The mean changes from layer to layer and must be computed again; the loop gives a "
        "wrong mean from the second layer on. The covariance is the same."
    ),
    subject="Gaussian",
    basis="text",
    limits="One draw at d = 30, d_k = 1280, four layers of step 1.",
    planted="sample_moments * 1.01",
    settings={"dim": 30, "keys": 1280, "samples": 20000, "layers": 4, "step": 1.0},
    fast={"samples": 5000},
)


def frozen_mean(*, dim: int, keys: int, samples: int, layers: int, step: float) -> Finding:
    """The printed loop keeps the mean of the start; the layer needs that of each layer."""
    layer = draw_layer(dim, keys, seed=0)
    start = np.asarray(layer.measure.mean)
    how: Any = dict(stepper=Layers(step), frames=layers + 1, progress=False)
    exact = flow(layer.measure, layer.field, layers * step, **how)
    wanted = np.array([np.asarray(frame.mean) for frame in exact.frames])
    # Tokens with exactly the moments of the start follow the closed form to rounding.
    mean, cov = sample_moments(np.asarray(layer.measure.sample(samples).points))
    white = np.linalg.inv(np.linalg.cholesky(cov))
    tokens = (np.asarray(layer.measure.sample(samples).points) - mean) @ white.T
    tokens = start + tokens @ np.asarray(layer.measure.factor).T
    points = {"loop": tokens, "layer": tokens}
    means = {name: [x.mean(axis=0)] for name, x in points.items()}
    for _ in range(layers):
        for name, x in points.items():
            mean, cov = sample_moments(x)
            linear = layer.output @ cov @ layer.bilinear
            kept = start if name == "loop" else mean
            points[name] = x + step * (layer.output @ kept + x @ linear.T)
            means[name].append(points[name].mean(axis=0))
    size = np.linalg.norm(wanted, axis=1)
    off = {name: np.linalg.norm(np.array(m) - wanted, axis=1) / size for name, m in means.items()}
    spectra = [np.linalg.eigvalsh(sample_moments(x)[1]) for x in points.values()]
    rows = [
        judge(f"mean after {layers} layers of the printed loop: relative error",
              "section 3.2.1, the loop", 0.0, float(off["loop"][-1]), absolute=1e-8),
        judge("the same with the mean of each layer", "equation of m_T", 0.0,
              float(off["layer"][-1]), absolute=1e-8),
        judge("spectra of both loops: largest difference, of the largest eigenvalue",
              "a shift moves no spectrum", 0.0,
              float(np.abs(spectra[0] - spectra[1]).max() / spectra[1].max()), absolute=1e-8),
    ]  # fmt: skip
    at = np.arange(layers + 1)
    figure = plot_lines(
        {"mean of the start, as printed": (at, off["loop"]),
         "mean of each layer": (at, off["layer"])},
        "layer", "relative error of the mean",
        f"{samples} tokens, d = {dim}, d_k = {keys}, step {step:g}, against the closed form.",
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"means": figure})
