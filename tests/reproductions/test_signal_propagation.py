"""Entries on random transformers flip when the networks are not those that are stated."""

from __future__ import annotations

import dataclasses

import pytest

from reproductions.dong2021 import doubly_exponential
from reproductions.giorlandino2025 import overlap_maps, two_collapses

CASES = {
    "cubic": (
        doubly_exponential,
        {"tokens": 16, "width": 256, "beta": 2.0, "starts": [0.99, 0.999], "seeds": 24},
        {"beta": 1.3},
    ),
    "maps": (
        overlap_maps,
        {"tokens": 32, "width": 96, "depth": 12, "seeds": 10, "start": 0.2},
        {"attention": 1.6},
    ),
    "collapses": (
        two_collapses,
        {"tokens": 64, "width": 128, "ratios": [0.25, 1.0, 3.0], "seeds": 6},
        {"beta": 1.5},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_planted_scale_flips_the_verdict(name, monkeypatch):
    module, settings, plant = CASES[name]
    entry = getattr(module, module.__name__.rsplit(".", 1)[-1])
    assert entry(**settings).as_known("agree")
    right = module.random_stack

    def wrong(block, *rest, **more):
        changed = {key: factor * getattr(block, key) for key, factor in plant.items()}
        return right(dataclasses.replace(block, **changed), *rest, **more)

    monkeypatch.setattr(module, "random_stack", wrong)
    assert not entry(**settings).as_known("agree")
