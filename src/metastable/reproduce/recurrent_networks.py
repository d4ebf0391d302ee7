"""Networks for sequences: recurrent cells, gates, encoder and decoder, and how far they reach."""

from __future__ import annotations

import numpy as np

from metastable.comparison.verdict import judge
from metastable.reproduce.finding import Finding, holds

__all__ = [
    "encoder_decoder",
    "gru_cell",
    "long_dependencies",
    "lstm_cell",
    "recurrent_network",
]


def recurrent_network(*, length: int, width: int, seed: int) -> Finding:
    """A recurrent network against its formula, and what a feed-forward network cannot see."""
    from metastable.models.parity import recurrent_states
    from metastable.report.plots import draw_lines

    x = np.random.default_rng(seed).normal(size=(length, width))
    weights, states = recurrent_states("rnn", x, seed)
    h, written = np.zeros(width), []
    for x_t in x:
        h = np.tanh(weights["W"] @ x_t + weights["b"] + weights["U"] @ h + weights["c"])
        written.append(h)
    other = x.copy()
    other[0] = -x[0]
    moved = np.abs(recurrent_states("rnn", other, seed)[1] - states).max(axis=1)
    forward = lambda inputs: np.tanh(inputs @ weights["W"].T + weights["b"])
    still = np.abs(forward(other) - forward(x)).max(axis=1)
    unrolled = recurrent_states("rnn", x[: length // 2], seed)[1]
    rows = [
        judge("h_t = tanh(W x_t + U h_(t−1) + b), place by place, against torch.nn: largest error",
              "Figure 8, equation 22", 0.0, float(np.abs(np.array(written) - states).max()),
              absolute=1e-12),
        judge("the first half of a sequence does not know the second: largest error",
              "Figure 8, unrolled", 0.0, float(np.abs(unrolled - states[: length // 2]).max()),
              absolute=1e-14),
        holds("an input of the past moves the recurrent network's next state", "Figure 9, left",
              moved[1] > 1e-3, "moves", float(moved[1])),
        judge("and nothing in a feed-forward network, which takes inputs one by one",
              "Figure 9, right", 0.0, float(still[1:].max()), absolute=0.0),
    ]  # fmt: skip
    place = np.arange(length)
    figure = draw_lines(
        {
            "recurrent": (place, np.maximum(moved, 1e-17)),
            "feed-forward": (place, np.maximum(still, 1e-17)),
        },
        "place", "change of the state", log="y", lines=True,
        caption="What reversing the first input changes later; 1e−17 stands for nothing.",
    )  # fmt: skip
    return Finding(rows, {"memory": figure})


def lstm_cell(*, length: int, width: int, seed: int) -> Finding:
    """The six equations of a long short-term memory, as printed, against torch.nn.LSTM."""
    from metastable.models.parity import recurrent_states
    from metastable.report.plots import draw_lines

    x = np.random.default_rng(seed).normal(size=(length, width))
    errors, gates = {}, {}
    for bias in (False, True):
        weights, states = recurrent_states("lstm", x, seed, candidate_bias=bias)
        for printed in (False, True):
            h, memory, written, seen = np.zeros(width), np.zeros(width), [], []
            offset = np.split(weights["b"] + weights["c"], 4)
            for x_t in x:
                i, f, g, o = np.split(weights["W"] @ x_t + weights["U"] @ h, 4)
                forget = _sigmoid(f + offset[1])  # 25
                enter = _sigmoid(i + offset[0])  # 26
                candidate = np.tanh(g if printed else g + offset[2])  # 27, printed without bias
                memory = forget * memory + enter * candidate  # 28
                output = _sigmoid(o + offset[3])  # 29
                h = output * np.tanh(memory)  # 30
                written.append(h)
                seen.append([forget.mean(), enter.mean(), output.mean()])
            errors[bias, printed] = float(np.abs(np.array(written) - states).max())
            gates = np.array(seen)
    rows = [
        judge("equations 25 to 30 against torch.nn without a bias in the candidate: largest error",
              "Figure 10, equations 25–30", 0.0, errors[False, True], absolute=1e-12),
        holds("equation 27 has no bias; torch.nn's has one, and then they part",
              "equation 27; Hochreiter and Schmidhuber 1997", errors[True, True] > 1e-3, "differs",
              errors[True, True]),
        judge("with b_c in equation 27 they agree again: largest error", "equation 27",
              0.0, errors[True, False], absolute=1e-12),
    ]  # fmt: skip
    place = np.arange(length)
    figure = draw_lines(
        {name: (place, gates[:, k]) for k, name in enumerate(("forget", "input", "output"))},
        "place", "mean opening of the gate", "Gates along random inputs; 1 is open.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"gates": figure})


def gru_cell(*, length: int, width: int, seed: int) -> Finding:
    """The hidden state of a gated recurrent unit: reset and update gate, against torch.nn.GRU."""
    from metastable.models.parity import recurrent_states
    from metastable.report.plots import draw_lines

    x = np.random.default_rng(seed).normal(size=(length, width))
    weights, states = recurrent_states("gru", x, seed)
    h, written, update, between = np.zeros(width), [], [], 0.0
    for x_t in x:
        r, z, n = np.split(weights["W"] @ x_t + weights["b"], 3)
        R, Z, N = np.split(weights["U"] @ h + weights["c"], 3)
        reset, keep = _sigmoid(r + R), _sigmoid(z + Z)
        candidate = np.tanh(n + reset * N)
        before, h = h, (1 - keep) * candidate + keep * h
        outside = np.maximum(np.minimum(before, candidate) - h, h - np.maximum(before, candidate))
        between = max(between, float(outside.max()))
        written.append(h)
        update.append([reset.mean(), keep.mean()])
    rows = [
        judge("h_t = (1 − z) ∘ candidate + z ∘ h_(t−1) against torch.nn: largest error",
              "Figure 11; arXiv:1406.1078", 0.0,
              float(np.abs(np.array(written) - states).max()), absolute=1e-12),
        holds("the new state lies between the old one and the candidate", "Figure 11, update gate",
              between <= 1e-15, "in every coordinate", f"outside by {max(between, 0.0):.1g}"),
        holds("two gates instead of three: rows of W", "Figure 11, text",
              len(weights["W"]) == 3 * width, f"3 × {width}", f"{len(weights['W'])}"),
    ]  # fmt: skip
    place, seen = np.arange(length), np.array(update)
    figure = draw_lines(
        {name: (place, seen[:, k]) for k, name in enumerate(("reset", "update"))},
        "place", "mean opening of the gate",
        "Gates along random inputs; an update gate of 1 copies the old state.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"gates": figure})


def encoder_decoder(*, width: int, heads: int, layers: int, hidden: int) -> Finding:
    """Our encoder and decoder of N = 6 layers against torch.nn's, layer by layer."""
    from metastable.models.parity import transformer_beside
    from metastable.report.plots import draw_image, draw_lines

    both = transformer_beside(width, heads, layers, hidden)
    first = np.abs(both.ours - both.swapped).max()
    later = np.triu(np.ones(both.masked[0].shape[-2:]), 1)
    ahead = max(float((one * later).max()) for one in both.masked)
    rows = [
        judge(f"log-probabilities of N = {layers} + {layers} layers against torch.nn: worst error",
              "Figures 4 and 13; arXiv:1706.03762", 0.0,
              float(np.abs(both.ours - both.theirs).max()), absolute=1e-10),
        judge("Norm(x + Sublayer(x)) after every layer: largest error", "Figure 13, text",
              0.0, float(both.by_layer.max()), absolute=1e-10),
        judge("the context vectors handed over: largest error", "Figure 12, encoder", 0.0,
              float(np.abs(both.memory - both.their_memory).max()), absolute=1e-10),
        holds("other context vectors make the decoder say something else", "Figure 12, decoder",
              first > 1e-3, "differs", float(first)),
        judge("masked attention to later places: largest weight", "Figure 13, decoder", 0.0, ahead,
              absolute=0.0),
        judge("so the last target id changes nothing before it: largest change",
              "Figure 13, decoder", 0.0,
              float(np.abs(both.other_last - both.ours)[:, :-1].max()), absolute=1e-12),
        holds("attention modules: self in the encoder, masked and cross in the decoder",
              "Figure 13", [len(m) for m in (both.encoder, both.masked, both.cross)]
              == [layers] * 3, f"{layers} of each",
              f"{len(both.encoder)}, {len(both.masked)}, {len(both.cross)}"),
    ]  # fmt: skip
    shown = both.cross[-1][0, 0]
    n, m = shown.shape
    order = np.arange(1, layers + 1)
    apart = np.maximum(both.by_layer, 1e-17)
    figures = {
        "layers": draw_lines(
            {"encoder": (order, apart[:layers]), "decoder": (order, apart[layers:])},
            "layer", "largest difference", log="y", lines=True,
            caption="States of our layers and of torch.nn's, with the same weights.",
        ),
        "cross": draw_image(
            shown[::-1], (0.5, m + 0.5, n + 0.5, 0.5), "place of the source",
            "place of the target", "attention",
            "What one head of the last layer of the decoder looks at in the encoder's output.",
        ),
    }  # fmt: skip
    return Finding(rows, figures)


def long_dependencies(
    *, lags: list[int], reach: list[int], width: int, steps: int, rate: float, rows: int
) -> Finding:
    """Gradients and recall against distance: recurrent networks beside a transformer."""
    from metastable.models.memory import gradient_norms, recall_curves
    from metastable.models.recurrent import Recurrent, RecurrentConfig
    from metastable.models.training import Recipe
    from metastable.models.transformer import DecoderOnly, TransformerConfig
    from metastable.report.recurrence import draw_gradients, draw_recall

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
        "recall": draw_recall(lags, curves, chance),
        "gradients": draw_gradients(reach, norms),
    }
    return Finding(found, figures)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
