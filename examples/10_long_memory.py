"""Long memory: why attention replaced recurrence.

A symbol, then random fillers, then the question: which symbol was it? A recurrent net must carry
the answer through every place in between, and its gradient through as many Jacobians, so it
vanishes exponentially with the lag; gates (LSTM, GRU) slow this down. Attention looks back in one
step. We train the four at each lag and measure accuracy, and gradients before training.

Papers: Bengio, Simard, Frasconi (1994), vanishing gradients; Hochreiter, Schmidhuber (1997), LSTM;
Cho et al., arXiv:1406.1078, GRU; Vaswani et al., arXiv:1706.03762. Time: under a minute.

    python examples/10_long_memory.py [OUT]
"""

import os
import sys
from pathlib import Path

from metastable.models import (
    DecoderOnly,
    Recipe,
    Recurrent,
    RecurrentConfig,
    TransformerConfig,
    gradient_norms,
    recall_curves,
)
from metastable.report import save_figure
from metastable.report.figures.learning import plot_gradients, plot_recall

# Parameters
fast = os.environ.get("METASTABLE_FAST") == "1"
out = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("METASTABLE_OUT", "out"))
lags, symbols = ((2, 8) if fast else (4, 8, 16, 32, 64)), 8
recipe = Recipe(steps=40 if fast else 150, rows=32, rate=1e-2, warmup=20)


# Models
def transformer(vocabulary):
    return DecoderOnly(TransformerConfig(vocabulary, width=32, heads=4, layers=2, hidden=64))


def recurrent(cell):
    return lambda vocabulary: Recurrent(RecurrentConfig(vocabulary, cell, width=64))


families = {
    "transformer": transformer,
    "LSTM": recurrent("lstm"),
    "GRU": recurrent("gru"),
    "vanilla RNN": recurrent("rnn"),
}

# Training
curves = recall_curves(families, lags, recipe, symbols=symbols)
gradients = {name: gradient_norms(build(2 * symbols + 1), lags) for name, build in families.items()}

# Analysis
print(f"lag {'':10}" + "".join(f"{lag:>9}" for lag in lags))
for name in families:
    print(f"{name:14}" + "".join(f"{share:9.2f}" for share in curves[name]), " accuracy")
    print(f"{'':14}" + "".join(f"{norm:9.1e}" for norm in gradients[name]), " gradient")
print(f"chance is {1 / symbols}")

# Figure
figures = {
    "recall": plot_recall(lags, curves, chance=1 / symbols),
    "gradients": plot_gradients(lags, gradients),
}
for name, figure in figures.items():
    for path in save_figure(figure, out, f"10_long_memory_{name}"):
        print(path)
