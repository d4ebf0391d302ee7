"""When are two tokens together? A phase diagram from many small systems.

P(⟨x_1(t), x_2(t)⟩ ≥ 0.999) over random starts jumps from 0 to 1 across a curve in the (t, β)
plane. In high dimension random tokens are nearly orthogonal and the curve is known: Γ_∞, the time
at which orthogonal tokens have come together.

Paper: Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794, §6. Time: about ten seconds.

    python examples/15_phase_diagram.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

from metastable.core.numerics import jnp
from metastable.flows.ensemble import Gram, sample_ensemble
from metastable.report import save_figure
from metastable.report.figures.plain import plot_image
from metastable.theory.equiangular import phase_curve

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tokens, dim, samples = 16, 512, (32 if fast else 256)
betas, horizon, frames = np.linspace(0.5, 7, 6 if fast else 27), 20.0, 81

# One ensemble for each β
share = []
for beta in betas:
    form = Gram(jnp.asarray(beta))
    pair = sample_ensemble(form, 0, samples, tokens, dim, horizon, frames, lambda f, y: f.pair(y))
    share.append((np.asarray(pair) >= 0.999).mean(axis=1))

# The half-way contour against theory
times, curve = np.linspace(0, horizon, frames), phase_curve(betas, tokens, 1e-3)
half = np.array([np.interp(0.5, row, times) if row[-1] > 0.5 else np.nan for row in share])
seen = np.isfinite(half)
print(f"half-way contour off Γ_∞ by at most {np.abs(half - curve)[seen].max():.3f} units of time")

# Figure
figure = plot_image(
    share,
    (0, horizon, betas[0], betas[-1]),
    "time t (SA clock)",
    "β",
    "P(together)",
    f"Share of {samples} random starts of {tokens} tokens in d = {dim}.",
    curves={"Γ_∞": (curve[curve < horizon], betas[curve < horizon])},
)
for path in save_figure(figure, out, "15_phase_diagram"):
    print(path)
