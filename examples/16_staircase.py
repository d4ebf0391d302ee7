"""The staircase: from many clusters to one, over times like e^{cβ}.

Metastable clusters wait exponentially long, then two of them merge and the energy jumps by 2α_iα_j
of the merged masses. Steps by distance travelled, with time kept as a logarithm, follow this to the
last cluster.

Paper: Geshkovski, Koubbi, Polyanskiy, Rigollet, arXiv:2410.06833. Time: about ten seconds.

    python examples/16_staircase.py [OUT]
"""

import math
import os
import sys
from pathlib import Path

import numpy as np

import metastable as ms
from metastable.report import plot_angles, plot_energy, save_figure

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tokens, beta = (60 if fast else 400), 25.0

# Flow to the last cluster
start = ms.uniform(tokens=tokens, dim=2, seed=0)
run = ms.flow(start, ms.SelfAttention(beta), math.inf, stepper=ms.Merging())
last = run.frames[-1]
print(f"{last.count} cluster left at t = {run.times[-1]:.3g} ({run.outcome.name})")

# Every jump of the energy is that of a merger
scaled = np.array([float(ms.energy(frame, beta, scaled=True)) for frame in run.frames])
print(f"2βe^(−β)E climbs from {scaled[0]:.4f} to {scaled[-1]:.4f}")
print(f"it never falls: {bool((np.diff(scaled) > -1e-12).all())}")

# Figures
figures = {"angles": plot_angles(run, log=True), "energy": plot_energy(run, log=True)}
for name, figure in figures.items():
    for path in save_figure(figure, out, f"16_staircase_{name}"):
        print(path)
