"""Entries on random depth and long contexts flip when something else is run than is stated."""

from __future__ import annotations

import pytest

from metastable.fields import RandomValue
from reproductions.bruno2026 import critical_window
from reproductions.duerinckx2026 import lost_middle
from reproductions.fedorov2026 import antipodal_pairs
from reproductions.koubbi2026 import common_noise

CASES = {
    antipodal_pairs: {"dims": [4], "samples": 100, "pairs": []},
    common_noise: {"dims": [4], "samples": 60},
}


@pytest.mark.parametrize("module", CASES)
def test_noise_that_is_too_strong_flips_the_verdict(module, monkeypatch):
    run = lambda: getattr(module, module.__name__.rsplit(".", 1)[-1])(**CASES[module])
    assert run().as_known("agree")
    monkeypatch.setattr(module, "RandomValue", lambda *a, **k: RandomValue(*a, scale=1.4, **k))
    assert not run().as_known("agree")


@pytest.mark.parametrize("name", ["critical_window", "lost_middle"])
def test_another_beta_and_another_clock_flip_the_verdict(name, monkeypatch):
    module = {"critical_window": critical_window, "lost_middle": lost_middle}[name]
    settings = {**module.ENTRY.settings, **module.ENTRY.fast}
    run = lambda: getattr(module, name)(**settings)
    assert run().as_known("agree")
    if name == "critical_window":
        rows = critical_window.attention_rows
        wrong = lambda measure, beta, **more: rows(measure, 1.3 * beta, **more)
        monkeypatch.setattr(critical_window, "attention_rows", wrong)
    else:
        profile = lost_middle.retrieval_profile
        wrong = lambda bias, beta, horizon, **more: profile(bias, beta, 2 * horizon, **more)
        monkeypatch.setattr(lost_middle, "retrieval_profile", wrong)
    assert not run().as_known("agree")
