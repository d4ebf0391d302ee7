"""One token is a Brownian motion, two of them synchronise."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions._random_depth import cosines, expected_later, many_runs, mean_with_error, pair_at
from reproductions.shalova2026._forms import RandomForm

ENTRY = Entry(
    title="One token is a Brownian motion, two of them synchronise",
    places=["arXiv:2603.06187, Theorem 4.3 and Theorem 4.8", "its sequel, Proposition 3.8"],
    claim=(
        "A token under the random quadratic form is a Brownian motion on the sphere; the mean "
        "distance of two tokens to a pair of opposite points is at most (π/√2)e^{−t/2}."
    ),
    method=(
        "Means of the first two harmonics of one token against e^{−l(l+d−2)t/2}; the mean of "
        "√(1−ρ²) against the stated bound and Kolmogorov's equation; rate of the typical pair."
    ),
    subject="random depth",
    basis="text",
    limits=(
        "Steps of finite length, whose bias is part of the tolerance. The bound is one of a mean "
        "distance on the sphere; sines stand for it here, within a factor of π/2."
    ),
    planted="RandomForm.scale = 1.2",
    settings={"dim": 4, "times": [0.2, 0.4, 0.8, 1.6], "samples": 15000, "step": 0.005},
    fast={"samples": 8000, "step": 0.01},
)


def brownian_token(*, dim: int, times: list[float], samples: int, step: float) -> Finding:
    """Harmonics of one token; the mean sine of two."""
    x = many_runs(RandomForm(), pair_at(0.0, dim), times, samples=samples, step=step)
    rows, sines, errors = [], [], []
    # dZ = −2Z(1−Z²)dt + 2(1−Z²)dB, so that y = artanh Z has dy = 2 tanh y dt + 2dB.
    drift, variance = lambda y: 2 * math.tanh(y), lambda y: 4.0
    exact = expected_later(drift, variance, lambda y: 1 / np.cosh(y), 0.0, times)
    for k, time in enumerate(times):
        c = x[k, :, 0, 0]
        for degree, harmonic in ((1, c), (2, (dim * c**2 - 1) / (dim - 1))):
            mean, error = mean_with_error(harmonic)
            law = float(np.exp(-degree * (degree + dim - 2) * time / 2))
            rows.append(
                judge(f"mean harmonic of degree {degree} at time {time:g}", "Theorem 4.3", law,
                      mean, absolute=4 * error + dim * step)
            )  # fmt: skip
        sine = np.sqrt(np.maximum(1 - cosines(x[k]) ** 2, 0.0))
        mean, error = mean_with_error(sine)
        rows.append(
            judge(f"mean sine of the angle of two tokens at time {time:g}",
                  "Kolmogorov's equation", float(exact[k]), mean, absolute=4 * error + 2 * step)
        )  # fmt: skip
        sines.append(mean)
        errors.append(error)
    typical = np.log(np.maximum(1 - cosines(x[-1]) ** 2, 1e-300)) / 2
    fine = np.linspace(times[0], times[-1], 40)
    series = [
        Series("mean", times, sines, errors, style="points"),
        Series("mean, Kolmogorov's equation", fine,
               expected_later(drift, variance, lambda y: 1 / np.cosh(y), 0.0, fine), role="theory"),
        Series("bound (π/√2)e^{−t/2}", fine, np.pi / np.sqrt(2) * np.exp(-fine / 2),
               role="theory", dash="dotted"),
        Series("median", [times[-1]], [float(np.exp(np.median(typical)))], style="points"),
    ]  # fmt: skip
    axes = Axis("time t (entries of Q of variance 1)"), Axis("sine of the angle", scale="log")
    return Finding(rows, {"sines": Lines(*axes, series, caption=f"No attention, d = {dim}.")})
