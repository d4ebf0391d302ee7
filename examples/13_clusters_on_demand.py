"""Clusters on demand: train β, V and a weak feed-forward layer to make k clusters.

Attention alone chooses its number of clusters by β, and only on average: the growth rates of
neighbouring modes are close, and chance decides among them. Here three numbers are trained through
the flow, by its gradient: β, the clock V = vI, and the strength ε of a feed-forward layer with k
wells. Theory says how weak the layer may be and still decide: ε = 2λ_k/(k²√n).

Source of the rates: docs/control.md. Time: about 20 seconds.

    python examples/13_clusters_on_demand.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

from metastable.core.figure import Axis, Bars, Lines, Panels, Series
from metastable.learn.control.clusters import (
    Demand,
    count_clusters,
    success,
    train_clusters,
)
from metastable.report import save_figure
from metastable.theory.perturbation import balanced_strength, pinning_strength

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
k = 4
steps, starts = (2, 4) if fast else (25, 50)
demand = Demand(k, tokens=24 if fast else 64, horizon=10.0, free="layer", steps=24)

# Theory's round figure, β = k²/2 and V = I, with nothing trained
plain = Demand(k, tokens=demand.tokens, horizon=10.0, free="beta", steps=24)
before = count_clusters(plain, plain.first(), starts)
share, low, high = success(before, k)
print(f"β = k²/2: {k} clusters in {share:.0%} of fresh starts ({low:.0%} to {high:.0%})")

# Training
training = train_clusters(demand, steps=steps, rate=0.05)
found = training.parameters
beta, strength = float(np.exp(found.log_beta[0])), abs(float(found.strength))
print(training)
print(f"trained: β = {beta:.2f}, v = {float(found.value[0]):.2f}, ε = {strength:.3f}")
pinning = pinning_strength(beta, k, demand.tokens)
print(f"theory: ε pins from {pinning:.3f} on, rules from {balanced_strength(beta, k):.3f} on")

# Fresh starts
after = count_clusters(demand, found, starts)
share, low, high = success(after, k)
print(f"trained: {k} clusters in {share:.0%} of fresh starts ({low:.0%} to {high:.0%})")

# Figure
numbers = range(1, 8)
shares = Bars(
    [str(number) for number in numbers],
    {
        name: [np.mean(counts == number) for number in numbers]
        for name, counts in {"trained": after, "β = k²/2, V = I": before}.items()
    },
    Axis("clusters at the asked depth"),
    Axis("share of fresh starts", limits=(0.0, 1.3)),
)
loss = Lines(
    Axis("step"),
    Axis("loss 1 − |μ̂_k|² + Σ |μ̂_j|²"),
    [Series("", training.checks, training.validation)],
)
figure = Panels([shares, loss], 2, size=(8.2, 3.1), caption=f"{k} clusters on demand.")
for path in save_figure(figure, out, "13_clusters_on_demand"):
    print(path)
