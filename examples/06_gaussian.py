"""A Gaussian prompt: attention keeps it Gaussian, until its covariance explodes.

Infinitely many tokens with law N(m, Σ) stay Gaussian under softmax attention, with a covariance in
closed form: for V = I it is (Σ_0⁻¹ − t(A+Aᵀ))⁻¹, infinite at t* = 1/λ_max(Σ_0^{1/2}(A+Aᵀ)Σ_0^{1/2})
when that is positive. Just before, one direction has swallowed all the others: the rank collapses.
With attention by distance nothing explodes. Tokens that really attend follow the closed form while
their logits are small, and leave it when each of them listens to a single other one.

Paper: Castin, Ablin, Carrillo, Peyré, arXiv:2501.18322. Time: about twenty seconds.

    python examples/06_gaussian.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

import metastable as ms
from metastable.measures import Gaussian
from metastable.report import plot_lines, save_figure
from metastable.theory.gaussian import blow_up_time, covariance_at

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tokens, beta = (200 if fast else 1500), 0.5

# Initial measure
start = Gaussian([0.2, 0.0], [[0.5, 0.1], [0.1, 0.3]])

# Field
softmax, by_distance = ms.SelfAttention(beta), ms.L2Attention(beta)

# Flow
pole = blow_up_time(np.asarray(start.cov), beta * np.eye(2))
run = ms.flow(start, softmax, horizon=1.2 * pole, frames=241)
other = ms.flow(start, by_distance, horizon=1.2 * pole, frames=241)
sample = start.sample(tokens, seed=1)
crowd = ms.flow(sample, softmax, horizon=1.2 * pole, frames=61)
print(run)

# Analysis
found = run.statistics["blow_up_time"]
print(f"blow-up at t = {found:.9f}, predicted {pole:.9f}")
closed = [covariance_at(t, np.asarray(start.cov), beta * np.eye(2)) for t in run.times]
error = max(np.abs(f.cov / c - 1).max() for f, c in zip(run.frames, closed, strict=True))
print(f"largest relative error of the flow, up to t = {run.times[-1]:.4f}: {error:.1e}")
shape = run.frames[-1].eigenvalues
print(f"share of the narrow direction: {shape[0] / shape.sum():.4f} there, 0.32 at the start")


def widest(frames):
    return np.sqrt([frame.eigenvalues[-1] for frame in frames])


# Figure
cloud = [Gaussian.of(frame) for frame in crowd.frames]
figure = plot_lines(
    {
        "Gaussian, softmax": (run.times, widest(run.frames)),
        f"{tokens} tokens, softmax": (crowd.times, widest(cloud)),
        "by distance": (other.times, widest(other.frames)),
    },
    "time t (SA clock)",
    "largest standard deviation",
    "Widest direction of the measure, and the time of the pole.",
    marks={"pole": pole},
    log="y",
    lines=True,
)
for path in save_figure(figure, out, "06_gaussian_widths"):
    print(path)
