"""Noise against attraction: how order sets in.

Tokens on S^{d−1} attract each other and are shaken by noise, dX = drift dt + √(2/κ) dW. The uniform
measure is stable up to κ_#. We follow the stationary densities that leave it there, f ∝ exp(κψ[f]),
by continuation. Unnormalised attention (USA) turns discontinuous above β_* = 2.447 on the circle:
the branch bends back, and between its fold and κ_# uniform and order are both stable (hysteresis).
Softmax attention (SA) leaves the uniform measure continuously at every β, and no fold is found.

Paper: Mun, Rosenzweig, arXiv:2606.05140 (κ_#, β_*); SA and the phase diagram are computed here.
Time: about ten seconds.

    python examples/05_noise.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

from metastable.report.figures.noise import plot_branches, plot_phases
from metastable.report.svg import save_figure
from metastable.theory.branches import branch_in_kappa, phase_diagram, transition
from metastable.theory.noise import tricritical_beta

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
betas = np.linspace(0.25, 8, 8 if fast else 24)

# Branches of stationary densities on the circle
usa = [branch_in_kappa(beta, 2, normalized=False, until=1.3) for beta in (1, 2, 3, 5, 8)]
sa = [branch_in_kappa(beta, 2, until=1.3) for beta in (1, 2, 3, 5, 8)]

# Analysis
print(f"USA on the circle, discontinuous above β_* = {tricritical_beta(2):.4f}:")
for beta in (2.3, 2.6, 5.0):
    found = transition(beta, 2, normalized=False)
    print(
        f"  β = {beta}: {found.kind}; κ_# = {found.kappa_uniform:.5f}, fold at "
        f"{found.kappa_ordered:.5f}, equal free energy at {found.kappa_equal:.5f}, "
        f"alignment jumps by {found.jump:.3f}"
    )
print(f"SA on the circle: {sum(len(branch.turns) for branch in sa)} folds on {len(sa)} branches")

# Phase diagram
tables = {f"USA, d = {dim}": phase_diagram(betas, dim, normalized=False) for dim in (2, 3, 8)}
tables["SA, d = 8"] = phase_diagram(betas, 8)

# Figure
figures = {
    "usa": plot_branches(usa),
    "sa": plot_branches(sa),
    "phases": plot_phases(tables),
}
for name, figure in figures.items():
    for path in save_figure(figure, out, f"05_noise_{name}"):
        print(path)
