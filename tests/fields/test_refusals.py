"""What fields refuse: one sentence that names the argument and shows the value."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms

RING = ms.polygon(3)
BALL = ms.simplex(3)
SA = ms.SelfAttention(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.SelfAttention(-1.0), r"beta must be >= 0; got -1.*query=-1"),
        (lambda: ms.SelfAttention(np.nan), r"beta.*finite.*nan"),
        (lambda: ms.SelfAttention("5"), r"beta.*'5'"),
        (lambda: ms.SelfAttention([1.0, 2.0]), r"beta.*\[1\.0, 2\.0\]"),
        (lambda: ms.SelfAttention(True), r"beta.*True"),
        (lambda: ms.SelfAttention(1.0, query=np.ones(3)), r"query.*2 non-empty.*\(3,\)"),
        (lambda: ms.SelfAttention(1.0, key=np.inf), r"key.*inf"),
        (lambda: ms.SelfAttention(1.0, value=[[np.nan]]), r"value must be finite.*row 0"),
        (lambda: ms.L2Attention(-2.0), r"beta.*-2"),
        (lambda: ms.SinkhornAttention(1.0, iterations=0), r"iterations.*>= 1.*0"),
        (lambda: ms.SinkhornAttention(1.0, tolerance=0.0), r"tolerance must be > 0.*0"),
        (lambda: ms.MultiHead([]), r"heads.*non-empty.*\[\]"),
        (lambda: ms.MultiHead([3]), r"heads.*3"),  # pyright: ignore
        (lambda: ms.MultiHead([SA], [1.0, 2.0]), r"outputs.*per head \(1\).*2"),
        (lambda: ms.Alibi(-0.5), r"slope must be >= 0.*-0\.5"),
        (lambda: ms.Window(0.0), r"width must be > 0.*0"),
        (lambda: ms.Window(1.0, sinks=-1), r"sinks.*>= 0.*-1"),
        (lambda: ms.Rope(base=0.0), r"base must be > 0.*0"),
        (lambda: ms.Noise(0.0), r"kappa must be > 0; got 0.*Leave Noise out"),
        (lambda: ms.Noise(np.inf), r"kappa.*inf"),
        (lambda: ms.NGPT(alpha=0.0), r"alpha must be > 0.*0"),
        (lambda: ms.Mix(until=-1.0), r"until must be >= 0.*-1"),
        (lambda: ms.FeedForward(activation="relu"), r"activation.*function.*'relu'"),  # pyright: ignore
        (lambda: ms.FeedForward(bias=[[1.0]]), r"bias.*1 non-empty.*\(1, 1\)"),
        (lambda: ms.Gain(SA, [1.0, 0.0]), r"gain.*no zero entry"),
        (lambda: ms.Kuramoto(np.nan), r"coupling.*nan"),
        (
            lambda: ms.Rescaled(ms.SelfAttention(1.0, normalized=False)),
            r"Rescaled.*normalized=False",
        ),
        (
            lambda: ms.Schedule.piecewise([SA, SA], [1.0, 0.5]),
            r"switches must be 1 inc.*1\.0, 0\.5",
        ),
        (lambda: ms.Schedule.piecewise([SA, SA, SA], [1.0, 1.0]), r"switches must be 2 increasing"),
        (
            lambda: ms.Schedule.piecewise([SA, ms.SelfAttention(1.0, value=-1)], [1.0]),
            r"fields.*share classes and array shapes",
        ),
        (lambda: ms.Schedule.resampled(lambda key: SA, 0, 1.0), r"layers.*>= 1.*0"),
        (lambda: ms.Schedule.resampled(lambda key: SA, 2, -1.0), r"horizon must be > 0.*-1"),
        (lambda: ms.Dense(block=0), r"block.*>= 1.*0"),
        (lambda: SA + 3, r"only fields add.*int"),  # pyright: ignore
    ],
)
def test_bad_fields_are_refused_when_built(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("field", "measure", "at", "message"),
    [
        (ms.SelfAttention(1.0, query=np.ones((2, 3))), RING, None, r"dimension 3.*dimension 2"),
        (ms.SelfAttention(1.0, query=np.ones((4, 3))), BALL, None, r"query and key.*4 and 3"),
        (ms.SelfAttention(1.0, value=np.ones((2, 3))), BALL, None, r"value.*square"),
        (SA, BALL, np.ones((2, 2)), r"at.*dimension 3.*\(2, 2\)"),
        (SA, BALL, [[np.nan, 0, 0]], r"at must be finite.*row 0"),
        (ms.SelfAttention(1.0, causal=True), BALL, np.eye(3), r"needs their times.*Points"),
        (ms.SelfAttention(1.0, position=ms.Rope()), BALL, None, r"Rope.*even.*3"),
        (ms.Gain(SA, [1.0, 2.0]), BALL, None, r"gain.*one entry per axis \(3\); got 2"),
        (ms.FeedForward(bias=[1.0, 2.0]), BALL, None, r"bias must have 3 entries.*2"),
        (ms.Kuramoto(1.0, frequencies=np.ones(4)), BALL, None, r"frequencies.*dim 3"),
        (ms.Kuramoto(1.0, frequencies=np.ones(4)), RING, None, r"frequencies.*4 entries, 3 places"),
        (ms.Rescaled(SA), BALL, None, r"Rescaled.*euclidean"),
    ],
)
def test_fields_that_do_not_fit_the_tokens_say_why(field, measure, at, message):
    with pytest.raises(ValueError, match=message):
        field.velocity(measure, at=at)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ms.Block(SA, "pre"), "placement"),  # pyright: ignore
        (lambda: ms.Block(SA, ms.PostNorm), "placement"),  # pyright: ignore
        (lambda: ms.FeedForward(after="attention"), "after"),  # pyright: ignore
        (lambda: ms.Potential(3.0), "potential"),  # pyright: ignore
        (lambda: ms.Krause(None), "profile"),  # pyright: ignore
        (lambda: ms.Schedule(SA), "at_time"),  # pyright: ignore
        (lambda: ms.Schedule.piecewise([ms.Potential(jnp.sin)] * 2, [1.0]), "fields"),
        (lambda: ms.MultiHead(SA), "heads"),  # pyright: ignore
    ],
)
def test_objects_of_the_wrong_kind_are_refused_by_name(make, name):
    with pytest.raises(ValueError, match=name):
        make()


def test_a_zero_place_on_the_sphere_is_refused():
    with pytest.raises(ValueError, match="at"):
        SA.velocity(BALL, at=np.zeros((1, 3)))
