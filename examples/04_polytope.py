"""Pure attention: tokens tend to the boundary of a polytope.

Without normalisation and with V = I the tokens x_i grow like e^t. In the frame z = e^{−t}x that
grows with them their convex hulls shrink, each inside the one before, to a polytope, and almost all
tokens end at its vertices (or where the boundary is orthogonal to them).

Paper: Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2305.05465, Theorem 3.1. Time: a few
seconds.

    python examples/04_polytope.py [OUT]
"""

import os
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

import metastable as ms
from metastable.core.figure import Axis, Lines, Series, time_axis
from metastable.observe import hull, hull_contains
from metastable.report import plot_hulls, save_figure
from metastable.theory.limits import polytope_residual

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tokens, beta, horizon = (20 if fast else 40), 1.0, 8.0

# Initial measure
start = ms.gaussian_points(tokens=tokens, dim=2, seed=0)

# Field
field = ms.Rescaled(ms.SelfAttention(beta=beta))

# Flow
run = ms.flow(start, field, horizon=horizon)

# Analysis
hulls = [hull(frame) for frame in run.frames]
nested = all(hull_contains(a, b.points, 1e-6).all() for a, b in pairwise(hulls))
areas = np.array([shape.volume for shape in hulls])
groups = ms.clusters(run.frames[-1])
corners = groups.centres[hull(ms.Points(groups.centres, on_sphere=False)).vertices]
residual = polytope_residual(run.frames[-1].points, corners, np.eye(2))
print(f"every hull inside the one before: {nested}")
print(f"area {areas[0]:.3f} → {areas[-1]:.3f}; limit polytope with {len(corners)} vertices")
print(f"{groups.count} clusters; largest residual of the limit set {np.max(residual):.1e}")

# Figure
area = Lines(
    time_axis(run.times, run.clock),
    Axis("area of the hull of z"),
    [Series("", run.times, areas)],
    caption="Area of the convex hull of the rescaled tokens.",
)
for name, figure in {"hulls": plot_hulls(run), "area": area}.items():
    for path in save_figure(figure, out, f"04_polytope_{name}"):
        print(path)
