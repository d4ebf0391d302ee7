"""Infinitely many tokens, until they collapse.

A density on the circle obeys the mean-field equation ∂_t μ + div(μ v[μ]) = 0. From uniform plus a
small wave it grows linearly, then nonlinearly, then sharpens beyond any number of harmonics: there
the run hands over to tokens, in the same call.

Paper: Bruno, Pasqualotto, Agazzi, arXiv:2410.23228 (the three phases). Time: about twenty seconds.

    python examples/14_density.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

import metastable as ms
from metastable.observe import amplitudes
from metastable.report import save_figure
from metastable.report.figures.density import plot_amplitudes, plot_density
from metastable.theory.spectrum import dominant_mode, max_rate

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
beta, tokens, horizon = 5.0, (200 if fast else 2000), 16.0

# Uniform plus the wave that grows fastest
mode = dominant_mode(beta, 2)
start = ms.Density.mode(2, mode, 1e-3)

# Flow: the equation while harmonics resolve it, then tokens
stepper = ms.Resolution(handover=tokens)
run = ms.flow(start, ms.SelfAttention(beta), horizon, stepper=stepper, frames=81)
kinds = [type(frame).__name__ for frame in run.frames]
print(f"{kinds.count('Density')} frames of a density, then {kinds.count('Points')} of tokens")

# Linear phase
size = np.array([amplitudes(frame, mode)[mode - 1] for frame in run.frames])
early = (size < 0.02) & (run.times > 0)
slope = np.polyfit(run.times[early], np.log(size[early]), 1)[0]
print(f"mode {mode} grows at {slope:.5f}; theory says {max_rate(beta, 2):.5f}")

# Figures
figures = {"density": plot_density(run), "modes": plot_amplitudes(run)}
for name, figure in figures.items():
    for path in save_figure(figure, out, f"14_density_{name}"):
        print(path)
