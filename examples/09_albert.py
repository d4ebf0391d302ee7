"""A real ALBERT past its depth: metastability in a trained transformer.

One layer with one set of weights, applied 12 times in training, is applied 512 times here to the
tokens of a chemical reaction. They gather into clusters that last: a hundred tokens, dozens of
clusters a hundred layers later, ten or so at the end. The same network without training is a
single point before layer 100. The histograms of ⟨x_i,x_j⟩, i ≠ j, are those of Figure 15 of the
slides (there ALBERT XLARGE on English; `metastable inspect FOLDER` makes them for any model).

Weights: `pip install --no-deps rxnmapper`; without them, the untrained network alone is shown.
Paper: Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794. Time: half a minute.

    python examples/09_albert.py [OUT]
"""

import os
import sys
from pathlib import Path

import numpy as np

from metastable import models
from metastable.core.figure import Axis, Lines, Series
from metastable.report import save_figure
from metastable.report.figures.layers import depth_axis, plot_cosine_histograms

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
depth = 64 if fast else 512
reaction = (Path(__file__).parent / "reactions.txt").read_text().splitlines()[0]

# Network
try:
    trained = models.load("rxnmapper")
    control = trained.untrained(seed=0)
    prompt = reaction
except ValueError as missing:
    from transformers import AlbertConfig, AlbertModel

    print(missing)
    sizes = {"hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 512}
    shape = AlbertModel(AlbertConfig(vocab_size=591, embedding_size=128, **sizes))
    trained, control = None, models.load(shape).untrained(seed=0)
    prompt = np.random.default_rng(0).integers(15, 300, 103).tolist()

# Flow: layer after layer
still = models.capture(control, prompt, depth=depth)
run = still if trained is None else models.capture(trained, prompt, depth=depth)
print(run)
for name, value in models.choices(run).items():
    print(f"  {name:<11}{value}")

# Analysis
table = models.depthwise(run, thorough=False)
flat = models.depthwise(still, thorough=False)
for layer in (0, 12, 24, 48, 96, 192, 512):
    if layer <= depth:
        print(
            f"layer {layer:>3}: {table.clusters[layer]:>3} clusters, mean cosine "
            f"{table.mean_cosine[layer]:.3f}; untrained {flat.clusters[layer]:>3}, "
            f"{flat.mean_cosine[layer]:.3f}"
        )
alone = np.flatnonzero(flat.clusters == 1)
print(f"untrained network: one point from layer {alone[0] if alone.size else '…'}")
print(f"clusters of the trained one: {table.clusters[0]} to {table.clusters[-1]}")

# Figure
counts = Lines(
    depth_axis(table.times),
    Axis("clusters (cosine > 0.99)"),
    [
        Series("trained", table.times, table.clusters),
        Series("untrained", flat.times, flat.clusters, role="control"),
    ],
    marks={"": 12},
    caption="Clusters of tokens through depth; dotted: the trained depth.",
)
for name, figure in {"clusters": counts, "histograms": plot_cosine_histograms(run, still)}.items():
    for path in save_figure(figure, out, f"09_albert_{name}"):
        print(path)
