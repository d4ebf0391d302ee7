"""Common noise draws tokens together."""

from __future__ import annotations

import math

import numpy as np

from metastable import flow, uniform
from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import RandomValue
from metastable.flows import Layers
from metastable.observe.random_depth import pair_exponent
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.random_depth import PairDiffusion

ENTRY = Entry(
    title="Common noise draws tokens together",
    places=["arXiv:2604.01978, abstract", "arXiv:2603.06187, abstract"],
    claim=(
        "Layers with weights of their own tend to an SDE whose noise all tokens share; it "
        "synchronises them, with attention and without."
    ),
    method="Rates of log(1−ρ) of layers and of the SDE, extrapolated; runs of many tokens.",
    subject="random depth",
    basis="abstract",
    limits="Two close tokens: rates near consensus, with Q = K = I.",
    planted="RandomValue.scale = 1.4",
    settings={"dims": [3, 8, 16], "samples": 2000},
    fast={"dims": [4], "samples": 300},
)


def common_noise(*, dims: list[int], samples: int) -> Finding:
    """−(d−1) with attention at any β, −2 without; orthogonal weights have the same limit."""
    rows = []
    for dim in dims:
        fields = {
            "β = 1": RandomValue(1.0),
            "β = 3, orthogonal weights": RandomValue(3.0, orthogonal=True),
            "no attention": RandomValue(None),
        }
        for name, field in fields.items():
            beta = math.inf if field.head is None else float(field.head.beta)
            exact = PairDiffusion(beta, dim).consensus_exponent
            for layers in (False, True):
                found = pair_exponent(field, dim, step=0.04 / (dim - 1), samples=samples,
                                      horizon=8.0 / (dim - 1), layers=layers)  # fmt: skip
                claim = f"d = {dim}, {name}: rate of log(1−ρ), {'layers' if layers else 'SDE'}"
                rows.append(judge(claim, "derived", exact, found.rate, absolute=4 * found.error))
    run = flow(uniform(32, 8, seed=2), RandomValue(1.0), 4.0, stepper=Layers(0.004), seed=1)
    points = np.stack([np.asarray(frame.points) for frame in run.frames])
    spread = 1 - np.sum(points.mean(axis=1) ** 2, axis=1)
    series = [
        Series("32 tokens, layers", run.times, spread),
        Series("e^{−(d−1)t}", run.times, spread[0] * np.exp(-7 * run.times), role="theory"),
    ]
    axes = Axis("t, ε² a layer"), Axis("1 − ‖mean‖²", scale="log")
    return Finding(rows, {"spread": Lines(*axes, series)})
