"""Entries on random depth and long contexts flip when something else is run than is stated."""

from __future__ import annotations

import pytest

from metastable.fields import RandomValue
from reproductions.long_context import critical_window, lost_middle
from reproductions.random_depth import antipodal_pairs, common_noise

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


@pytest.mark.parametrize("module", [critical_window, lost_middle])
def test_another_beta_flips_the_verdict(module, monkeypatch):
    name = module.__name__.rsplit(".", 1)[-1]
    settings = {**module.ENTRY.settings, **module.ENTRY.fast}
    run = lambda: getattr(module, name)(**settings)
    assert run().as_known("agree")
    used = "attention_rows" if module is critical_window else "retrieval_profile"
    right = getattr(module, used)
    wrong = lambda first, beta, *rest, **more: right(first, 2.5 * beta, *rest, **more)
    monkeypatch.setattr(module, used, wrong)
    assert not run().as_known("agree")
