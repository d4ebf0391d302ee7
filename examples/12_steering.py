"""Steering tokens: a transformer as a control system.

The matrices (Q, K, V, w, a, b) of a layer are controls. First a control that is constant in three
pieces of depth carries eight tokens of the plane to eight targets, and the same control is tried on
perturbed prompts. Then one control is asked to serve two prompts that share a token, with a target
of its own in each: attention, which sees the context, can do it; a neural ODE moves each token by
itself and must miss, by a margin that is known.

Papers: Ruiz-Balet, Zuazua, arXiv:2104.05278; Geshkovski, Rigollet, Ruiz-Balet, arXiv:2411.04551.
Time: about 20 seconds.

    python examples/12_steering.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

from metastable.learn.control.measures import amplification, meeting_bound, perturbed_errors
from metastable.learn.control.steering import Plant, steer_tokens
from metastable.learn.control.steering_experiment import random_tokens
from metastable.report import plot_lines, save_figure
from metastable.report.figures.learning import plot_paths

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tokens, steps = (3, 4) if fast else (8, 20)

# Many tokens, one prompt
plant = Plant(dim=2, attention=False, neurons=8, pieces=3, on_sphere=False, substeps=4)
start, goal = (random_tokens(tokens, 2, seed, on_sphere=False) for seed in (1, 2))
found = steer_tokens(start, goal, plant, steps=steps)
print(found)
sizes = np.geomspace(1e-3, 0.3, 8)
errors = perturbed_errors(found, start, goal, sizes)
gain = amplification(found, start)
print(f"a small error of the prompt grows {gain:.1f} times")

# One control, two prompts with the same first token
tokens_of = lambda seed: random_tokens(2, 3, seed, on_sphere=True)
first, other = tokens_of(1), tokens_of(2)
prompts = np.stack([first, np.stack([first[0], other[1]])])
targets = np.stack([tokens_of(3), tokens_of(4)])
bound = meeting_bound(targets[:, :1])
for name, plant in {
    "attention and neurons": Plant(3, neurons=3, pieces=2, substeps=4),
    "neural ODE": Plant(3, attention=False, neurons=6, pieces=2, substeps=4),
}.items():
    steered = steer_tokens(prompts, targets, plant, steps=steps)
    miss = np.mean(steered.errors[:, 0] ** 2)
    print(f"{name}: mean squared miss of the shared token {miss:.2g}")
print(f"no neural ODE comes below {bound:.2g}")

# Figures
perturbed = plot_lines(
    {"measured": (sizes, errors)},
    "perturbation of the prompt δ",
    "error at the targets",
    "The same control on perturbed prompts.",
    theory={"from the Jacobian": (sizes, gain * sizes)},
    log="xy",
)
for name, figure in {"paths": plot_paths(found, start, goal), "perturbed": perturbed}.items():
    for path in save_figure(figure, out, f"12_steering_{name}"):
        print(path)
