"""Recurrent cells against the equations of the textbooks, in NumPy."""

import numpy as np
import pytest
import torch

from metastable.models.own.memory import gradient_norms, recall_curves
from metastable.models.own.recurrent import Recurrent, RecurrentConfig
from metastable.models.own.training import Recipe
from metastable.models.own.transformer import DecoderOnly, TransformerConfig

D, V = 6, 5


def made(cell, width=D):
    return Recurrent(RecurrentConfig(V, cell, width), seed=2).double()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def weights(model):
    return [w.detach().numpy() for w in model.cells.parameters()]  # W, U, b, c


def rnn_states(model, x):
    W, U, b, c = weights(model)
    h, states = np.zeros(D), []
    for x_t in x:
        h = np.tanh(W @ x_t + b + U @ h + c)
        states.append(h)
    return states


def lstm_states(model, x):
    W, U, b, c = weights(model)
    h, memory, states = np.zeros(D), np.zeros(D), []
    for x_t in x:
        i, f, g, o = np.split(W @ x_t + b + U @ h + c, 4)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(memory)
        states.append(h)
    return states


def gru_states(model, x):
    W, U, b, c = weights(model)
    h, states = np.zeros(D), []
    for x_t in x:
        (r, z, n), (R, Z, N) = np.split(W @ x_t + b, 3), np.split(U @ h + c, 3)
        r, z = sigmoid(r + R), sigmoid(z + Z)
        h = (1 - z) * np.tanh(n + r * N) + z * h
        states.append(h)
    return states


@pytest.mark.parametrize(
    ("cell", "states"), [("rnn", rnn_states), ("lstm", lstm_states), ("gru", gru_states)]
)
def test_cells_are_their_equations(cell, states):
    model = made(cell)
    ids = torch.tensor([[0, 3, 1, 4]])
    x = model.table.weight.detach().numpy()[ids[0]]
    logits = np.array(states(model, x)) @ model.unembed.weight.detach().numpy().T
    logits += model.unembed.bias.detach().numpy()
    want = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    out = model.forward_embeddings(model.embed(ids))[0].detach().numpy()
    assert np.abs(out - want).max() < 1e-12


def test_gradient_of_an_rnn_is_the_product_of_its_jacobians():
    model, lag = made("rnn"), 12
    ids = np.random.default_rng(0).integers(V, size=(1, lag + 1))
    x = model.table.weight.detach().numpy()[ids[0]]
    W, U, _, _ = weights(model)
    states = rnn_states(model, x)
    jacobian = np.diag(1 - states[0] ** 2) @ W
    for h in states[1:]:
        jacobian = np.diag(1 - h**2) @ U @ jacobian
    R, r = (w.detach().numpy() for w in model.unembed.parameters())
    p = np.exp(R @ states[-1] + r)
    jacobian = (np.eye(V) - p / p.sum()) @ R @ jacobian  # of log softmax, then the read-out
    want = np.linalg.norm(jacobian)
    assert gradient_norms(model, [lag], rows=1, seed=0) == pytest.approx([want], rel=1e-9)


def test_gradients_vanish_in_recurrence_and_not_in_attention():
    """‖U‖ bounds the rnn's decay per place: U has entries in ±1/√d, so its spectral radius is near
    1/√3; attention without training spreads its weight over T places, so it falls about as 1/T."""
    lags = [8, 16, 32, 64]
    rnn = gradient_norms(made("rnn", 32), lags)
    rates = np.diff(np.log(rnn)) / np.diff(lags)
    assert (rates < np.log(1 / np.sqrt(3)) + 0.05).all()
    transformer = DecoderOnly(TransformerConfig(V, 32, 4, 2, 64))
    attention = gradient_norms(transformer, lags)
    slope = np.polyfit(np.log(lags), np.log(attention), 1)[0]
    assert -1.5 < slope < -0.5
    assert rnn[-1] < 1e-12 < 1e-3 < attention[-1]


def test_recall_curves_at_a_short_lag():
    families = {
        "rnn": lambda vocabulary: Recurrent(RecurrentConfig(vocabulary, "rnn", 16)),
        "none": lambda vocabulary: Recurrent(RecurrentConfig(vocabulary, "rnn", 2)),
    }
    recipe = Recipe(steps=60, rows=32, rate=1e-2, warmup=5)
    curves = recall_curves(families, [1, 2], recipe, symbols=4, rows=200)
    assert list(curves) == ["rnn", "none"] and curves["rnn"].shape == (2,)
    assert (curves["rnn"] > 0.95).all() and (curves["none"] < 0.9).all()


def test_config_refuses():
    with pytest.raises(ValueError, match="cell must be one of rnn, lstm, gru; got 'elman'"):
        RecurrentConfig(V, "elman")
    with pytest.raises(ValueError, match="dropout acts between layers"):
        RecurrentConfig(V, dropout=0.1)
    with pytest.raises(ValueError, match="width must be an integer >= 1"):
        RecurrentConfig(V, width=0)
    with pytest.raises(ValueError, match="lag must be an integer >= 1"):
        gradient_norms(made("rnn"), [0])
