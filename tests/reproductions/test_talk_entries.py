"""Entries about the talk: errors planted in the solver change verdicts."""

from __future__ import annotations

import pytest

from metastable.reproduce.finding import Finding
from reproductions.flows_talk.attention_layers import attention_layers
from reproductions.valente2024.layer_similarities import _surrogate
from tests.reproductions.planting import hotter, hurried, verdicts

ENTRIES = {
    "clock off by 30 %, layers of attention": (
        lambda: attention_layers(tokens=4, beta=3.0, horizon=2.0, depths=[32, 64]),
        hurried,
    ),
    "β off by 30 %, cosines in high dimension": (
        lambda: Finding(_surrogate(4.0, [0.0, 4.0, 12.0])[0], {}),
        hotter,
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_planted_error(name, monkeypatch):
    entry, wrong = ENTRIES[name]
    assert verdicts(entry, wrong, monkeypatch) == (True, False)
