"""Entries about networks: errors planted in them change verdicts, missing weights are told."""

from __future__ import annotations

import functools

import pytest

from metastable.learn.neural import equivariant
from reproductions.valente2024 import equivariant_heads, layer_similarities

torch = pytest.importorskip("torch")

from metastable.models import folder  # noqa: E402
from metastable.models.own import recurrent  # noqa: E402
from metastable.models.own.transformer import Attention  # noqa: E402
from reproductions.valente2024.encoder_decoder import encoder_decoder  # noqa: E402
from reproductions.valente2024.gru_cell import gru_cell  # noqa: E402
from reproductions.valente2024.lstm_cell import lstm_cell  # noqa: E402
from reproductions.valente2024.recurrent_network import recurrent_network  # noqa: E402


def small(entry):
    return lambda: entry(length=5, width=4, seed=1)


def parity():
    return encoder_decoder(width=8, heads=2, layers=2, hidden=8)


def fitted():
    entry = equivariant_heads.equivariant_heads
    return entry(heads=[2, 16], tokens=3, dim=2, samples=128, seeds=1)


def test_formulas_hold_for_any_weights_but_not_for_another_cell(monkeypatch):
    assert small(recurrent_network)().as_known("agree")
    bent = functools.partial(torch.nn.RNN, nonlinearity="relu")
    monkeypatch.setitem(recurrent._CELLS, "rnn", bent)
    assert not small(recurrent_network)().as_known("agree")


@pytest.mark.parametrize(("entry", "cell"), [(lstm_cell, "lstm"), (gru_cell, "gru")])
def test_gates_in_a_wrong_order_are_seen(entry, cell, monkeypatch):
    assert small(entry)().as_known("agree")
    kind = recurrent._CELLS[cell]

    class Wrong(kind):
        def forward(self, x, state=None):
            for one in self.parameters():
                one.data = one.data.roll(self.hidden_size, 0)
            out = super().forward(x, state)
            for one in self.parameters():
                one.data = one.data.roll(-self.hidden_size, 0)
            return out

    monkeypatch.setitem(recurrent._CELLS, cell, Wrong)
    assert not small(entry)().as_known("agree")


def test_a_wrong_temperature_in_attention_is_seen(monkeypatch):
    assert parity().as_known("agree")
    right = Attention.__init__

    def hotter(self, width, heads):
        right(self, width, heads)
        self.beta *= 1.3

    monkeypatch.setattr(Attention, "__init__", hotter)
    assert not parity().as_known("agree")


def test_scores_that_are_not_even_are_seen(monkeypatch):
    assert fitted().as_known("disagree")
    right = equivariant.head_means
    for module in (equivariant, equivariant_heads):
        monkeypatch.setattr(module, "head_means", lambda score, x: right(score, x + 0.5))
    assert not fitted().as_known("disagree")


def test_missing_weights_are_told(monkeypatch):
    def absent(*asked):
        raise ValueError("rxnmapper needs the package rxnmapper: pip install it.")

    monkeypatch.setattr(folder, "load", absent)
    monkeypatch.setattr(layer_similarities, "_surrogate", lambda *asked: ([], {}))
    found = layer_similarities.layer_similarities(
        model="rxnmapper", prompt="CC", depth=2, shown=[0, 2], beta=4.0, times=[0.0, 12.0]
    )
    assert found.rows[0].verdict == "not applicable" == found.verdict
    assert "rxnmapper" in found.rows[0].reason
