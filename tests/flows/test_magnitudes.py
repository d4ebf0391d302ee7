"""Numbers of every size in every field: a run ends or is refused, and never hangs."""

from __future__ import annotations

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms

PAIR = ms.Adaptive(1e-6, 1e-6, diffrax.Heun(), max_steps=2000)
NOISE = ms.Geodesic(max_steps=2000)
ENDS = {"done", "blow_up", "step_limit"}
SIZES = [1e18, 1e150, 1e200, 1e300, 1.7e308, 1e-300, 5e-324]


def rows(size, dim, seed=1):
    """A full matrix with entries up to `size`."""
    return size * np.random.default_rng(seed).uniform(-1, 1, (dim, dim))


SA = ms.SelfAttention
FIELDS = {
    "SA": lambda m, d: SA(m),
    "USA": lambda m, d: SA(m, normalized=False),
    "causal": lambda m, d: SA(m, causal=True),
    "query and key": lambda m, d: SA(2.0, query=m, key=m),
    "matrices": lambda m, d: SA(2.0, rows(m, d), rows(m, d, 2), rows(m, d, 3)),
    "beta and key": lambda m, d: SA(m, key=rows(m, d)),
    "value": lambda m, d: SA(2.0, value=m),
    "alibi": lambda m, d: SA(1.0, position=ms.Alibi(m)),
    "window": lambda m, d: SA(1.0, position=ms.Window(m)),
    "L2": lambda m, d: ms.L2Attention(m, query=rows(m, d)),
    "Sinkhorn": lambda m, d: ms.SinkhornAttention(m, rows(m, d), iterations=20),
    "heads": lambda m, d: ms.MultiHead([SA(m), SA(1.0)], [1.0, m]),
    "Kuramoto": lambda m, d: ms.Kuramoto(m),
    "Krause": lambda m, d: ms.Krause(lambda r2: jnp.exp(-m * r2)),
    "potential": lambda m, d: ms.Potential(lambda s: m * s**3),
    "perceptron": lambda m, d: ms.FeedForward(rows(m, d), rows(m, d, 2), np.full(d, m)),
    "gain": lambda m, d: ms.Gain(SA(1.0), np.full(d, m)),
    "nGPT": lambda m, d: ms.Block(SA(1.0), ms.NGPT(m)),
    "sum": lambda m, d: SA(m) + ms.Kuramoto(m),
    "schedule": lambda m, d: ms.Schedule.piecewise([SA(m), SA(1.0)], [0.01]),
}
SPACE = {
    "rescaled": lambda m, d: ms.Rescaled(SA(1.0, value=rows(m, d))),
    "pre": lambda m, d: ms.Block(SA(1.0, value=m), ms.PreNorm()),
    "peri": lambda m, d: ms.Block(SA(1.0, value=m), ms.PeriNorm()),
}
NOISY = {
    "noise": lambda m, d: SA(1.0) + ms.Noise(m),
    "noisy SA": lambda m, d: SA(m) + ms.Noise(5.0),
    "noisy value": lambda m, d: SA(1.0, value=m) + ms.Noise(5.0),
    "noisy head": lambda m, d: ms.MultiHead([SA(1.0, value=rows(m, d))]) + ms.Noise(5.0),
}


def check_end(make):
    """Run: it ends in a known way with whole frames, or is refused in one line."""
    try:
        run = make()
    except ValueError as error:
        assert "must" in str(error) and "\n" not in str(error), error
        return
    assert run.outcome.name in ENDS
    points = [np.asarray(frame.points) for frame in run.frames]
    assert all(np.isfinite(frame).all() for frame in points)
    if run.frames[0].on_sphere:
        assert max(np.abs(np.linalg.norm(x, axis=1) - 1).max() for x in points) < 1e-9


def sizes(name):
    """The odd sizes, and two drawn anywhere in the range of floats."""
    drawn = np.random.default_rng(len(name)).uniform(-300, 308, 2)
    return [*SIZES, *(10.0**drawn)]


KINDS = [(name, 2) for name in [*FIELDS, *SPACE, *NOISY]]
# On S² other sums serve attention than on the circle.
KINDS += [(name, 3) for name in ("SA", "causal", "query and key", "matrices", "noisy SA")]


@pytest.mark.parametrize(("name", "dim"), KINDS)
def test_every_field_of_every_size_ends_or_is_refused(name, dim):
    start = ms.uniform(4, dim, seed=3)
    start = start.euclidean() if name in SPACE else start
    stepper = NOISE if name in NOISY else PAIR
    make = (FIELDS | SPACE | NOISY)[name]
    for size in sizes(name):
        run = lambda size=size: ms.flow(start, make(size, dim), 0.05, frames=2, stepper=stepper)
        check_end(run)


@pytest.mark.parametrize("size", SIZES)
def test_discrete_depth_of_every_size_ends_or_is_refused(size):
    start = ms.uniform(4, 3, seed=3)
    for field in (SA(size), SA(2.0, value=rows(size, 3)), SA(2.0, query=size, key=size)):
        check_end(lambda field=field: ms.flow(start, field, 3.0, stepper=ms.Layers()))
    check_end(lambda: ms.flow(start, SA(2.0), 3 * size, stepper=ms.Layers(size)))


def test_a_large_beta_is_the_motion_to_oneself():
    # At β = 1e18 every token attends to itself alone, and nothing moves.
    for dim in (2, 3):
        start = ms.uniform(5, dim, seed=0)
        for beta in (1e18, 1e150, 1e300):
            run = ms.flow(start, SA(beta), 1.0, frames=2, stepper=PAIR)
            assert run.outcome.name == "done" and run.statistics["sum"] == "dense"
            assert np.abs(run.points[-1] - run.points[0]).max() < 1e-15
