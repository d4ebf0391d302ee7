"""Clusters on the sphere S².

Uniform tokens on S² gather in about β/√3 first clusters: the maxima of a random spherical harmonic
of degree ℓ with ℓ(ℓ+1) ≈ 2β. These merge one pair at a time while the energy climbs a staircase;
every β ≥ 0 ends with one cluster, after times that grow exponentially with β.

Papers: Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794; Geshkovski, Koubbi,
Polyanskiy, Rigollet, arXiv:2410.06833 (the staircase). Time: about ten seconds.

    python examples/02_sphere.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

import metastable as ms
from metastable.observe import kernel_modes
from metastable.report import film_on_sphere, plot_energy, plot_strip, save_figure, write_film
from metastable.theory.counts import expected_count
from metastable.theory.spectrum import exit_time, max_rate

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tokens, beta, horizon = (100 if fast else 600), 9.0, 25.0

# Initial measure
start = ms.uniform(tokens=tokens, dim=3, seed=0)

# Field
field = ms.SelfAttention(beta=beta)

# Flow
run = ms.flow(start, field, horizon=horizon)
print(run)

# Analysis
leave = exit_time(tokens, max_rate(beta, 3))
first = kernel_modes(run.frames[np.searchsorted(run.times, leave)], beta)
last = ms.clusters(run.frames[-1], beta)
print(f"theory:   {expected_count(beta, 3):.1f} first clusters on average, at t = {leave:.2f}")
print(f"observed: {first.count} at the exit, {last.count} at t = {horizon:g}")
# Clusters that are tight and far apart have the energy of their masses alone.
energy = float(ms.energy(run.frames[-1], beta, scaled=True))
print(f"2βe^(−β)E = {energy:.4f} at the end; sum of squared masses {np.sum(last.masses**2):.4f}")

# Figure
for name, figure in {"strip": plot_strip(run), "energy": plot_energy(run)}.items():
    for path in save_figure(figure, out, f"02_sphere_{name}"):
        print(path)
print(write_film(film_on_sphere(run, frames=10 if fast else 60), out / "02_sphere.gif"))
