"""Compilation: runs that differ in numbers only share one compiled solve."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest

import metastable as ms
from metastable.flows.solvers import segments
from metastable.flows.solvers.tokens import Deterministic, Diffusive


@pytest.fixture
def traces(monkeypatch):
    """How often a segment was traced: its Python body runs when compiling, and only then.

    The compiled solve is a fresh one, so that no shape of an earlier test is known to it.
    """
    seen = []
    compiled = segments._compiled.__wrapped__
    fresh = eqx.filter_jit(lambda *arguments: compiled(*arguments))
    monkeypatch.setattr(segments, "_compiled", fresh)
    for job in (Deterministic, Diffusive):

        def counting(self, *args, real=job.segment, **how):
            seen.append(type(self).__name__)
            return real(self, *args, **how)

        monkeypatch.setattr(job, "segment", counting)
    return seen


def test_other_numbers_of_the_same_shape_do_not_compile_again(traces):
    run = lambda beta, seed, horizon: ms.flow(
        ms.uniform(7, 3, seed=seed), ms.SelfAttention(beta), horizon, frames=25
    )
    first = run(1.0, 0, 1.0)
    assert len(traces) == 1
    second = run(5.5, 1, 2.0)
    assert len(traces) == 1
    assert np.abs(first.points[-1] - second.points[-1]).max() > 0.1
    ms.flow(ms.uniform(8, 3), ms.SelfAttention(1.0), 1.0, frames=25)
    assert len(traces) == 2  # another shape does: the counter counts


def test_matrices_and_weights_do_not_compile_again(traces):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        start = ms.Points(ms.uniform(7, 3).points, rng.uniform(1, 2, 7))
        ms.flow(start, ms.SelfAttention(1.0, value=rng.normal(size=(3, 3))), 1.0, frames=25)
    assert len(traces) == 1


def test_another_seed_of_the_noise_does_not_compile_again(traces):
    for seed in range(2):
        field = ms.SelfAttention(1.0) + ms.Noise(5.0)
        stepper = ms.Geodesic(0.1)
        ms.flow(ms.uniform(7, 3), field, 1.0, frames=25, seed=seed, stepper=stepper)
    assert len(traces) == 1


def test_a_flow_inside_jit_and_vmap_is_the_flow_outside():
    start = ms.uniform(7, 3)
    stepper = ms.Fixed(0.05)
    last = lambda beta: (
        ms.flow(start, ms.SelfAttention(beta), 1.0, frames=2, stepper=stepper).frames[-1].points
    )
    betas = np.array([0.5, 4.0])
    together = np.asarray(jax.jit(jax.vmap(last))(betas))
    alone = np.stack([np.asarray(last(b)) for b in betas])
    assert np.abs(together - alone).max() < 1e-13
