"""First clusters on the circle.

Uniform tokens on S¹ move by softmax self-attention (SA). The uniform measure is unstable: harmonic
k grows at the rate λ_k = k² I_k(β) / (β I_0(β)), and the fastest one decides how many clusters
appear first, about √(2β). We compare their number, time and angles with a run.

Papers: Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794 (the model); Bruno,
Pasqualotto, Agazzi, arXiv:2410.23228 (the first clusters). Time: a few seconds.

    python examples/01_first_clusters.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

import metastable as ms
from metastable.observe import kernel_modes
from metastable.report import plot_angles, plot_clusters, save_figure
from metastable.theory.counts import predicted_angles

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tokens, beta, horizon = (100 if fast else 400), 9.0, 30.0

# Initial measure
start = ms.uniform(tokens=tokens, dim=2, seed=0)

# Field
field = ms.SelfAttention(beta=beta)

# Flow
run = ms.flow(start, field, horizon=horizon)
print(run)

# Analysis
theory = ms.predict(field, dim=2, tokens=tokens)
theory.print()
seen = kernel_modes(run.frames[np.searchsorted(run.times, theory.exit_time)], beta)
angles = np.sort(np.arctan2(seen.centres[:, 1], seen.centres[:, 0]) % (2 * np.pi))
print(f"first clusters predicted near {predicted_angles(start.angles, None, beta).round(2)} rad")
print(f"{seen.count} observed at the exit, at {angles.round(2)} rad")
ms.compare(run).print()

# Figure
for name, figure in {"angles": plot_angles(run), "clusters": plot_clusters(run)}.items():
    for path in save_figure(figure, out, f"01_first_clusters_{name}"):
        print(path)
