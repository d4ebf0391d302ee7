"""Universality, built and trained.

First a network with three hidden layers of sigmoids is *built* for the saddle xy, by the step of
the proof that lowers the error to 3/4, and its uniform error is certified. Then a transformer on
measures (three layers, three heads with d_k = d_v = 1) is *trained* on 32 tokens to return the mean
of its context, its spread about x, and W_1(μ, δ_x), and used on up to 100 000 tokens.

Papers: E. Ponti's thesis, Pisa 2025, Theorem 2.2; Furuya, de Hoop, Peyré, arXiv:2408.01367.
Time: about 30 seconds.

    python examples/08_universality.py [OUT]
"""

import os
import sys
from pathlib import Path

from metastable.report import save_figure
from metastable.reproduce import load_module

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
tolerance, grid = (0.3, 65) if fast else (0.1, 129)
steps, counts = (30, [32, 64]) if fast else (800, [8, 32, 1024, 100_000])
trained = 32
networks = load_module("ponti2025._sigmoid_network")  # reproductions/ponti2025/_sigmoid_network.py
transformers = load_module("ponti2025._measure_transformer")
figures = load_module("ponti2025._universality_figures")


# A network built
def saddle(x):
    return x[:, 0] * x[:, 1]


built = networks.approximate(saddle, tolerance, grid=grid)
print(f"built in {len(built.parts)} steps: {built}")
proof = networks.certify(built.network, saddle, lipschitz=2**0.5, tolerance=tolerance)
print(f"uniform error certified: at most {proof.bound:.4f}, seen {proof.seen:.4f}")

# A network trained
network = transformers.MeasureTransformer.create(dim=1, outputs=3)
training = transformers.train_on_measures(network, tokens=trained, steps=steps)
print(training)
result = transformers.generalization(training.parameters, counts, measures=4)
for count, error in zip(result.counts, result.total, strict=True):
    print(f"n = {count:6d}: root-mean-square error {error:.4f}")

# Figures
drawn = {
    "built": figures.plot_approximation(built, saddle),
    "trained": figures.plot_generalization(result, trained),
}
for name, figure in drawn.items():
    for path in save_figure(figure, out, f"08_universality_{name}"):
        print(path)
