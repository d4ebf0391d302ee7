"""Two hundred random cases for every sum, against the full n × n sum in extended precision.

A sum states that e^{−β}Σ errs by at most its tolerance times the total mass, and gives NaN where a
place sees no more than that. Tokens are spread, in one cluster, in two opposite ones or on axes;
masses are equal, random, or nearly all on one token; β runs from 0 to the end of the sum's reach.
"""

from __future__ import annotations

import numpy as np
import pytest

from metastable.core.numerics import jax, jnp
from metastable.fields.position import Causal
from metastable.fields.sums import CircleSum, Dense, GaussianSum, HarmonicSum, Kernel, SphereSum
from metastable.fields.sums.causal import CausalSum
from metastable.fields.sums.zonal import degree_for
from tests import oracles

CHANNELS = 2

# Draws, tokens, largest β, tolerance: each line is compiled once and serves its draws.
LOW = [(50, 3, 2.0, 1e-12), (50, 40, 9.0, 1e-6), (50, 60, 60.0, 1e-10), (50, 120, 9.0, 1e-12)]
FOUR = [(50, 3, 2.0, 1e-12), (50, 40, 9.0, 1e-6), (100, 300, 20.0, 1e-5)]
MORE = [(100, 40, 3.0, 1e-6), (100, 150, 1.0, 1e-11)]

SUMS = {
    "dense": (4, LOW, lambda beta, tolerance: Dense(block=64)),
    "circle": (2, LOW, CircleSum.reaching),
    "sphere": (3, LOW, SphereSum.reaching),
    "plane": (2, LOW, lambda beta, tolerance: GaussianSum(np.sqrt(beta), tolerance)),
    "space": (3, LOW[:2] + MORE[:1], lambda beta, tolerance: GaussianSum(np.sqrt(beta), tolerance)),
}
for dim, groups in {2: LOW, 3: LOW, 4: FOUR, 5: MORE, 6: MORE, 7: MORE, 8: MORE}.items():
    SUMS[f"harmonic {dim}"] = (
        dim,
        groups,
        lambda beta, tolerance, dim=dim: HarmonicSum.reaching(beta, dim, tolerance),
    )


def case(rng, count, dim, beta):
    """Tokens, masses, values and an inverse temperature."""
    x = rng.normal(size=(count, dim))
    kind = rng.integers(4)
    if kind == 1:
        x = x[0] + 10.0 ** rng.uniform(-8, -1) * x
    elif kind == 2:
        x = rng.choice([-1, 1], (count, 1)) * x[0] + 1e-3 * x
    elif kind == 3:
        x = np.eye(dim)[rng.integers(dim, size=count)] * rng.choice([-1, 1], (count, 1))
    w = [np.ones(count), rng.uniform(0, 1, count), np.r_[1.0, np.full(count - 1, 1e-4)]]
    w = w[rng.integers(3)]
    beta = beta * [0.0, 1.0, rng.uniform(), rng.uniform()][rng.integers(4)]
    return oracles.unit(x), w / w.sum(), rng.uniform(-1, 1, (count, CHANNELS)), beta


def exact(x, w, values, beta, seen=True):
    y = x.astype(np.longdouble)
    k = np.exp(beta * (y @ y.T - 1)) * w * seen
    return k.sum(1), k @ values


def close(got, expected, tolerance, counts):
    """Within the tolerance; NaN only where hardly any mass is seen."""
    (mass, moment), (true_mass, true_moment) = got, expected
    refused = np.isnan(mass)
    assert np.all(true_mass[refused] < 2 * tolerance)
    counts += np.array([refused.sum(), refused.size])
    kept = ~refused
    assert np.max(np.abs(mass - true_mass)[kept], initial=0) <= tolerance
    assert np.max(np.abs(moment - true_moment)[kept], initial=0) <= tolerance


def attend(sum, biases=()):
    @jax.jit
    def run(beta, x, w, values, times):
        times = times if biases else None
        kernel = Kernel(
            beta, x, x, jnp.log(w), None, biases, times, times, zonal=not biases, own=True
        )
        log_mass, mean = sum.attend(kernel, values)
        mass = jnp.exp(log_mass - beta)
        return mass, mass[:, None] * mean

    return lambda *arrays: [np.asarray(a) for a in run(*map(jnp.asarray, arrays))]


@pytest.mark.parametrize("name", SUMS)
def test_two_hundred_cases(name):
    dim, groups, build = SUMS[name]
    rng, counts = np.random.default_rng([dim, len(name)]), np.zeros(2)
    for draws, count, most, tolerance in groups:
        run = attend(build(most, tolerance))
        # All pairs are exact to rounding: n terms at most 1, each to a few ε(1 + β).
        stated = 1e-15 * (20 + most) if name == "dense" else tolerance
        for _ in range(draws):
            x, w, values, beta = case(rng, count, dim, most)
            got = run(beta, x, w, values, np.zeros(count))
            close(got, exact(x, w, values, beta), stated, counts)
    assert counts[0] < 0.02 * counts[1]


@pytest.mark.parametrize("dim", [2, 3, 4, 5])
def test_two_hundred_causal_cases(dim):
    rng, counts = np.random.default_rng(dim), np.zeros(2)
    for count, most, tolerance in [(3, 2.0, 1e-12), (70, 4.0, 1e-6)]:
        sum = CausalSum(dim, degree_for(most, dim, tolerance), tolerance, block=8)
        run = attend(sum, (Causal(),))
        for _ in range(100):
            x, w, values, beta = case(rng, count, dim, most)
            times = rng.permutation(count) // 3.0
            seen = times[None, :] <= times[:, None]
            got = run(beta, x, w, values, times)
            close(got, exact(x, w, values, beta, seen), tolerance, counts)
    assert counts[0] < 0.02 * counts[1]
