"""`predict` and `compare` answer for whatever can be run: random runs of every kind of part."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from metastable.core.verdict import AGREE, DISAGREE, NOT_APPLICABLE

WORDS = {AGREE, DISAGREE, NOT_APPLICABLE}


def _start(rng, d):
    kind = rng.choice(["sphere", "sphere", "sphere", "space", "density", "gaussian"])
    n = int(rng.choice([1, 2, 5, 17]))
    if kind == "gaussian":
        root = rng.normal(size=(d, d))
        return ms.Gaussian(rng.normal(size=d), root @ root.T + 0.1 * np.eye(d))
    if kind == "density":
        size = float(10 ** rng.uniform(-6, -1))
        return ms.Density.mode(d, int(rng.integers(1, 4)), size)
    weights = rng.uniform(0.2, 1.0, n) if rng.integers(2) else None
    if kind == "space":
        return ms.Points(rng.normal(size=(n, d)), weights, on_sphere=False)
    points = ms.uniform(n, d, seed=int(rng.integers(1000))).points
    if n > 1 and rng.random() < 0.2:
        points = np.array(points)
        points[1] = rng.choice([-1.0, 1.0]) * points[0]  # a double, or an antipode
    return ms.Points(points, weights)


def _operator(rng, d):
    choices = [None, None, 0.0, -1.0, 0.5, rng.normal(size=(d, d)), np.diag(rng.normal(size=d))]
    return choices[rng.integers(len(choices))]


def _head(rng, d):
    beta = float(rng.choice([0.0, 1e-9, 0.7, 4.0, 30.0]))
    position = [(), (), ms.Alibi(0.3), ms.Window(2.0, sinks=1), ms.Rope(10.0)][rng.integers(5)]
    if d % 2 and isinstance(position, ms.Rope):
        position = ()
    return ms.SelfAttention(
        beta, _operator(rng, d), _operator(rng, d), _operator(rng, d),
        normalized=bool(rng.integers(2)), causal=bool(rng.integers(4) == 0), position=position,
    )  # fmt: skip


def _field(rng, d, deep=True):
    kind = rng.integers(14 if deep else 8)
    if kind < 3:
        return _head(rng, d)
    if kind == 3:
        return ms.Kuramoto(float(rng.normal()))
    if kind == 4:
        return ms.Potential(lambda s: s + 0.3 * s**2)
    if kind == 5:
        return ms.L2Attention(float(rng.uniform(0, 4)), query=_operator(rng, d))
    if kind == 6:
        return ms.SinkhornAttention(float(rng.uniform(0.1, 3)))
    if kind == 7:
        return ms.Krause(lambda s: jnp.exp(-s))
    inner = _field(rng, d, deep=False)
    if kind == 8:
        return ms.MultiHead([_head(rng, d), _head(rng, d)])
    if kind == 9:
        return inner + ms.Noise(float(10 ** rng.uniform(-1, 4)))
    if kind == 10:
        placements = [ms.PostNorm(), ms.PreNorm(), ms.PeriNorm(), ms.NGPT(0.5), ms.Mix(0.4)]
        return ms.Block(inner, placements[rng.integers(5)])
    if kind == 11:
        return ms.Gain(inner, rng.uniform(0.5, 2, d))
    if kind == 12:
        return ms.FeedForward(rng.normal(size=(d, d)), None, rng.normal(size=d), jnp.tanh, inner)
    if rng.integers(2):
        return ms.Rescaled(ms.SelfAttention(1.0, value=_operator(rng, d)))
    fields = [ms.SelfAttention(b) for b in rng.uniform(0, 5, 2)]
    return ms.Schedule.piecewise(fields, [0.3]) if rng.integers(2) else inner + _head(rng, d)


def _fitting(rng, start):
    """A field that can move such a start."""
    d = start.dim
    if isinstance(start, ms.Gaussian):
        return ms.SelfAttention(0.3, *(_operator(rng, d) for _ in range(3)))
    if isinstance(start, ms.Density):
        number = [None, -1.0, 0.5][rng.integers(3)]
        head = ms.SelfAttention(
            float(rng.uniform(0, 5)), value=number, normalized=bool(rng.integers(2))
        )
        force = [head, ms.Potential(lambda s: s**2), ms.Kuramoto(1.0)][rng.integers(3)]
        return force + ms.Noise(float(rng.uniform(1, 50))) if rng.integers(2) else force
    for _ in range(20):
        field = _field(rng, d)
        space = isinstance(field, ms.Block | ms.Rescaled | ms.Krause)
        if space != start.on_sphere:
            return field
    return _head(rng, d)


def _stepper(rng):
    choices = [None, None, None, ms.Layers(0.1), ms.Fixed(0.1), ms.Merging(), ms.Hardmax()]
    return choices[rng.integers(len(choices))]


def _try(number):
    """One random run; False where the parts do not go together, which they say in a sentence."""
    rng = np.random.default_rng([9, number])
    d = int(rng.choice([2, 3, 4]))
    try:
        start, stepper = _start(rng, d), _stepper(rng)
        field = _fitting(rng, start) if rng.random() < 0.7 else _field(rng, d)
        prediction = ms.predict(field, start)
        assert all(isinstance(text, str) for text in prediction.to_table().values())
    except ValueError as error:
        assert "must" in str(error) or ":" in str(error) or "need" in str(error), error
        return False
    endless = isinstance(stepper, ms.Merging | ms.Hardmax)
    frames = int(rng.choice([1, 2, 9, 21])) if not endless else 21
    try:
        span = math.inf if endless else 1.0
        run = ms.flow(start, field, span, stepper=stepper, frames=max(frames, 2), progress=False)
    except ValueError as error:
        assert len(str(error)) > 20
        return False
    if frames == 1:
        run = type(run)(run.times[:1], run.frames[:1], run.clock, run.outcome, {}, field)
    try:
        page = ms.compare(run)
    except ValueError as error:
        assert "finite" in str(error)  # a run that leaves the doubles is refused in one line
        return True
    assert {row.verdict for row in page.rows} <= WORDS
    assert all(row.reason for row in page.rows if row.verdict == NOT_APPLICABLE)
    return True


def test_random_runs_are_predicted_and_compared():
    assert sum(_try(number) for number in range(12)) >= 6


@pytest.mark.claim
@pytest.mark.parametrize("part", range(10))
def test_many_random_runs_are_predicted_and_compared(part):
    # Most parts drawn at random do not go together; enough must.
    assert sum(_try(number) for number in range(12 + 50 * part, 62 + 50 * part)) >= 15
