"""Causal attention: everything goes to the first token.

Token i attends to tokens j ≤ i only. The first token sees itself alone and never moves; the second
is drawn to it, the third to both, and so on: with V = I all of them converge to x_1(0), for any
query, key and β. At small β they arrive nearly in the order of the sequence.

Paper: Karagodin, Polyanskiy, Rigollet, arXiv:2411.04990. Time: a few seconds.

    python examples/03_causal.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

import metastable as ms
from metastable.core.figure import Axis, Lines, Series, time_axis
from metastable.report import plot_strip, save_figure

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tokens, beta, horizon = (16 if fast else 64), 1.0, 40.0

# Initial measure
start = ms.uniform(tokens=tokens, dim=3, seed=0)

# Field
field = ms.SelfAttention(beta=beta, causal=True)

# Flow
run = ms.flow(start, field, horizon=horizon, frames=201)
print(run)

# Analysis
chords = np.linalg.norm(run.points - run.points[0, 0], axis=2)  # (T, n)
distance = 2 * np.arcsin(np.minimum(chords / 2, 1))
arrival = run.times[np.sum(distance >= 0.1, axis=0)]
order = np.corrcoef(np.arange(1, tokens), arrival[1:])[0, 1]
print(f"first token moved by {distance[:, 0].max():.1e} rad")
print(f"farthest token from x_1(0) at t = {horizon:g}: {distance[-1].max():.1e} rad")
print(f"all within 0.1 rad by t = {arrival.max():.1f}; correlation with the order {order:.2f}")

# Figure
distances = Lines(
    time_axis(run.times, run.clock),
    Axis("distance to $x_1(0)$", unit="rad", scale="log", limits=(1e-4, 4.0)),
    [
        Series("", run.times, distance[:, index], shade=index / (tokens - 1), width=0.9)
        for index in range(tokens)
    ],
    levels={"": 0.1},
    caption="Distance of each token to the first one; early tokens dark, late ones light.",
)
for name, figure in {"distance": distances, "strip": plot_strip(run)}.items():
    for path in save_figure(figure, out, f"03_causal_{name}"):
        print(path)
