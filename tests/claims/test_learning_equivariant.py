"""Open Question 1: more heads come nearer to odd equivariant maps, never to even ones."""

from __future__ import annotations

import numpy as np
import pytest

from metastable.core.numerics import jax
from metastable.geometry.sphere import uniform_points
from metastable.learn.neural.equivariant import TARGETS, even_share, learn_equivariant
from metastable.learn.spec import Equivariant

pytestmark = pytest.mark.claim


def test_where_attention_takes_tokens_is_an_odd_equivariant_map():
    x = uniform_points(jax.random.key(0), 24, 3).reshape(6, 4, 3)
    order = np.array([2, 0, 3, 1])
    found = TARGETS["flow"](x)
    assert np.allclose(TARGETS["flow"](x[:, order]), found[:, order], atol=1e-6)
    assert even_share(TARGETS["flow"], x) < 1e-6


@pytest.mark.parametrize("dim", [2, 3])
def test_more_heads_come_nearer_to_odd_maps_only(dim, tmp_path):
    """A short form of experiments/learn/open_question_1.toml; the even map stays at distance 1, or
    √2 where outputs have unit length."""
    spec = Equivariant(
        kind="equivariant",
        dims=(dim,),
        heads=(1, 8),
        random=(8, 32, 128),
        seeds=2,
        samples=1024,
        batch=64,
        steps=600,
        rate=0.1,
    )
    lesson = learn_equivariant(spec, tmp_path)
    assert lesson.outcome.name == "done"
    assert sorted(f.name for f in tmp_path.iterdir()) == [f"d{dim}_heads{H}.npz" for H in (1, 8)]
    for output in spec.outputs:
        curves = lesson.figures[f"{output}_{dim}"]
        for name in ("cube", "nearest"):
            one, many = curves.lines[name][1]
            assert many < one and many < 0.9, (output, name)
            assert curves.bars[name].shape == (2,)
        assert curves.lines["flow"][1][-1] < 0.2  # one head is near it already
        distance = np.sqrt(2) if output == "unit" else 1.0
        assert np.allclose(curves.lines["mirror"][1], distance, atol=0.05)
    found = lesson.figures[f"random_{dim}"].lines
    for name in ("flow", "cube", "nearest"):
        assert np.all(np.diff(found[name][1]) < 0), name
    assert np.all(found["mirror"][1] >= 0.99)
