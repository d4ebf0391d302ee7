"""Verdicts on runs with random weights: honest ones agree, planted errors disagree."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from metastable.core.outcome import Outcome
from metastable.fields.sums import Dense
from metastable.flows import Trajectory
from metastable.geometry.sphere import exponential, project

FIELD, STEP, FRAMES = ms.RandomValue(beta=1.0), 0.005, 101


def _by_hand(start, seed, *, common=True, middle=False):
    """FIELD with a matrix of its own for each token, or in the sense of Stratonovich."""
    means = lambda x: FIELD.means(start.at(x), 0.0, Dense())

    def step(x, key):
        matrices = jax.random.normal(key, (1 if common else start.count, start.dim, start.dim))
        matrices = jnp.broadcast_to(matrices, (start.count, start.dim, start.dim))
        kick = lambda x: np.sqrt(STEP) * jnp.einsum("nij,nj->ni", matrices, means(x))
        moved = project(x, kick(x))
        if middle:
            there = exponential(x, moved)
            moved = project(x, (moved + project(there, kick(there))) / 2)
        x = exponential(x, moved)
        return x, x

    keys = jax.random.split(jax.random.key(seed), FRAMES - 1)
    _, states = jax.jit(lambda x: jax.lax.scan(step, x, keys))(start.points)
    frames = tuple(start.at(x) for x in (start.points, *states))
    times = STEP * np.arange(FRAMES)
    how = {"field": FIELD, "stepper": ms.Geodesic(STEP)}
    return Trajectory(times, frames, FIELD.clock, Outcome.done(), {}, **how)


def _wrong(run, field=None):
    page = ms.compare(run if field is None else dataclasses.replace(run, field=field))
    return [row.claim.split(",")[0] for row in page.rows if row.verdict == "disagree"]


def test_honest_runs_agree():
    start = ms.uniform(16, 3, seed=0)
    page = ms.compare(ms.flow(start, FIELD, 8.0, seed=3, frames=201))
    assert page.agrees and page.count("agree") >= 5
    assert ms.compare(ms.flow(start, FIELD, 4.0, stepper=ms.Layers(0.02), seed=3)).agrees
    assert not _wrong(_by_hand(start, 5))
    assert ms.compare(ms.flow(start, ms.RandomHeads(2), 2.0, seed=1)).agrees
    mixed = ms.SelfAttention(1.0) + ms.RandomValue(1.0, scale=0.3)
    assert ms.compare(ms.flow(start, mixed, 4.0, seed=1)).agrees


@pytest.mark.parametrize("seed", range(3))
def test_planted_errors_are_caught(seed):
    """A frame at every step: one matrix explains it to rounding, under the stated field alone."""
    start, how = ms.uniform(16, 3, seed=seed), {"stepper": ms.Geodesic(STEP), "frames": FRAMES}
    run = ms.flow(start, FIELD, STEP * (FRAMES - 1), seed=seed + 5, **how)
    common = "tokens moved by no common W"
    assert not _wrong(run)
    assert common in _wrong(run, ms.RandomValue(1.02))
    assert common in _wrong(run, ms.RandomValue(1.0, causal=True))
    assert "strength σ of the random weights" in _wrong(run, ms.RandomValue(1.0, scale=1.5))
    assert common in _wrong(_by_hand(start, seed, common=False))
    assert common in _wrong(_by_hand(start, seed, middle=True))  # another Itô term


def test_a_wrong_beta_is_seen_between_distant_frames():
    run = ms.flow(ms.uniform(24, 8, seed=1), FIELD, 12 / 7, seed=5, frames=201)
    assert any("β of the random head" in row for row in _wrong(run, ms.RandomValue(1.3)))


def test_predictions_speak_of_pairs():
    found = ms.predict(ms.RandomValue(2.0, scale=2.0), 4)
    assert found.consensus_exponent == pytest.approx(-12.0)  # σ²·(−(d−1))
    assert found.mean_exponent == pytest.approx(-4.0)  # σ²·(−(d−3))
    assert found.antipodal_chance == pytest.approx(0.24744, abs=1e-5)
    assert "opposite" in " ".join(found.to_table())
    heads = ms.predict(ms.RandomHeads(4), 8)
    assert heads.mean_exponent == -5.0
    # Each token alone: PairDiffusion.drift near ρ = 1 is −2(1−ρ).
    assert ms.predict(ms.RandomValue(), 4).mean_exponent == 2.0
    assert heads.consensus_exponent == -7.0 and heads.antipodal_exponent is None
    assert "Q = K = I" in heads.reasons["antipodal_exponent"]
