"""Long dependencies."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.models.own.memory import gradient_norms, recall_curves
from metastable.models.own.recurrent import Recurrent, RecurrentConfig
from metastable.models.own.training import Recipe
from metastable.models.own.transformer import DecoderOnly, TransformerConfig
from metastable.report.figures.learning import plot_gradients, plot_recall
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Long dependencies",
    places=["long-term dependency", "section on recurrent models, vanishing gradient"],
    claim=(
        "Recurrent networks lose what lies far back, because gradients vanish; gates help, "
        "and attention reaches every place in one step."
    ),
    method=(
        "Gradients of the last output by the first input against their distance, and the "
        "first symbol asked for after a lag, each network trained at that lag alone."
    ),
    subject="networks",
    basis="text",
    limits=(
        "Small networks of width 32 trained 300 steps on one recall task, lags up to 128; one seed."
    ),
    planted="gradient_norms + 1.0",
    settings={
        "lags": [2, 8, 32, 128],
        "reach": [4, 8, 16, 32, 64, 128],
        "width": 32,
        "steps": 300,
        "rate": 0.005,
        "rows": 64,
    },
    fast={
        "lags": [2, 48],
        "reach": [4, 8, 16, 32],
        "width": 16,
        "steps": 100,
        "rate": 0.01,
        "rows": 32,
    },
)


def long_dependencies(
    *, lags: list[int], reach: list[int], width: int, steps: int, rate: float, rows: int
) -> Finding:
    """Gradients and recall against distance: recurrent networks beside a transformer."""
    families = {
        "rnn": lambda size: Recurrent(RecurrentConfig(size, "rnn", width)),
        "lstm": lambda size: Recurrent(RecurrentConfig(size, "lstm", width)),
        "gru": lambda size: Recurrent(RecurrentConfig(size, "gru", width)),
        "transformer": lambda size: DecoderOnly(
            TransformerConfig(size, width, 2, 1, 2 * width, norm_first=True)
        ),
    }
    symbols = 4
    norms = {name: gradient_norms(make(2 * symbols + 1), reach) for name, make in families.items()}
    # Slopes of log ‖gradient‖: against the distance if exponential, its logarithm if a power.
    decay = np.polyfit(reach, np.log(norms["rnn"]), 1)[0]
    power = np.polyfit(np.log(reach), np.log(norms["transformer"]), 1)[0]
    kept = {name: values[-1] / values[0] for name, values in norms.items()}
    recipe = Recipe(steps=steps, rows=rows, rate=rate, warmup=min(50, steps))
    curves = recall_curves(families, lags, recipe, symbols=symbols, rows=400, progress=False)
    chance = 1 / symbols
    last = {name: float(values[-1]) for name, values in curves.items()}
    found = [
        holds(f"a recurrent network fails to recall over {lags[-1]} places: accuracy",
              "section on recurrent models, long-term dependency",
              last["rnn"] < chance + 0.25, f"near chance, {chance:g}", last["rnn"]),
        holds("a transformer does, after the same training", "section on the transformer",
              last["transformer"] > 0.9, "above 0.9", last["transformer"]),
        holds("at the shortest distance the recurrent network recalls", "control",
              curves["rnn"][0] > 0.9, "above 0.9", float(curves["rnn"][0])),
        holds(f"gradient of a plain cell by an input {reach[-1]} places ago, over {reach[0]}",
              "vanishing gradient", decay < -0.1, "falls exponentially",
              f"{kept['rnn']:.1e}, e^({decay:.2f}) a place"),
        judge("power of the distance in the transformer's gradient", "one step reaches every place",
              -1.0, power, absolute=0.35),
        holds("gates let more of it through", "section on LSTM and GRU",
              min(kept["lstm"], kept["gru"]) > 10 * kept["rnn"], "more than a plain cell",
              f"lstm {kept['lstm']:.1e}, gru {kept['gru']:.1e}"),
    ]  # fmt: skip
    figures = {
        "recall": plot_recall(lags, curves, chance),
        "gradients": plot_gradients(reach, norms),
    }
    return Finding(found, figures)
