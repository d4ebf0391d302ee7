"""Two tokens under common noise, against brute force and other ways of solving."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import solve_banded

from metastable.theory.random_depth import (
    PairDiffusion,
    antipodal_beta,
    cosine_generator,
    energy_drift,
    group_exponent,
    moment_exponent,
)


@pytest.mark.parametrize(("dim", "beta", "rho"), [(3, 1.0, 0.3), (5, 2.0, -0.6), (8, 0.5, 0.8)])
@pytest.mark.parametrize("random_keys", [False, True])
def test_drift_and_variance_are_those_of_a_thin_layer(dim, beta, rho, random_keys):
    """One layer x ← N(x + εWm) drawn 100 000 times by NumPy alone; ε² = 1e−3."""
    rng, draws, square = np.random.default_rng(dim), 100_000, 1e-3
    x = np.zeros((2, dim))
    x[0, 0], x[1, 0], x[1, 1] = 1.0, rho, math.sqrt(1 - rho * rho)
    if random_keys:
        # Logits are a Gaussian field with covariance β²⟨x_i,x_k⟩⟨x_j,x_l⟩.
        root = np.linalg.cholesky(x @ x.T)
        logits = beta * np.einsum("ia,sab,jb->sij", root, rng.normal(size=(draws, 2, 2)), root)
    else:
        logits = np.broadcast_to(beta * x @ x.T, (draws, 2, 2))
    weights = np.exp(logits)
    means = weights / weights.sum(axis=2, keepdims=True) @ x
    # Two tokens see W on a plane alone: two normal vectors in its basis are enough.
    normal = rng.normal(size=(draws, dim, 2))
    basis = np.linalg.qr(x.T)[0]
    kicks = np.einsum("sdp,snp->snd", normal, means @ basis)
    change = []
    for sign in (1, -1):  # W and −W: what is odd in W cancels
        y = x + sign * math.sqrt(square) * kicks
        y /= np.linalg.norm(y, axis=2, keepdims=True)
        change.append(np.sum(y[:, 0] * y[:, 1], axis=1) - rho)
    pair = PairDiffusion(beta, dim, random_keys=random_keys)
    even, odd = (change[0] + change[1]) / 2, (change[0] - change[1]) / 2
    error = even.std() / math.sqrt(draws) / square
    assert abs(even.mean() / square - pair.drift(rho)) < 4 * error + 5 * dim * square
    squares = odd**2 / square
    error = squares.std() / math.sqrt(draws)
    assert abs(squares.mean() - pair.variance(rho)) < 4 * error + 5 * dim * square


def test_the_ends_have_the_exponents_that_the_diffusion_gives():
    for beta, dim in ((0.7, 4), (2.0, 8)):
        pair, small = PairDiffusion(beta, dim), 1e-5
        rate = -pair.drift(1 - small) / small - pair.variance(1 - small) / (2 * small**2)
        assert rate == pytest.approx(pair.consensus_exponent, abs=1e-3)
        rate = pair.drift(-1 + small) / small - pair.variance(-1 + small) / (2 * small**2)
        assert rate == pytest.approx(pair.antipodal_exponent, abs=1e-3)
        spread = math.sqrt(pair.variance(-1 + small)) / small
        assert spread == pytest.approx(pair.volatility, rel=1e-3)
    alone = PairDiffusion(math.inf, 5)
    assert alone.drift(1 - 1e-6) / -1e-6 - alone.variance(1 - 1e-6) / 2e-12 == pytest.approx(
        -2, 1e-3
    )
    assert group_exponent(50.0, 4) == pytest.approx(-3.0)  # each group is alone with itself


def test_antipodal_pairs_attract_above_the_critical_beta():
    for dim in (4, 8, 64):
        below, above = (PairDiffusion(f * antipodal_beta(dim), dim) for f in (0.999, 1.001))
        assert below.antipodal_exponent > 0 > above.antipodal_exponent
        assert below.antipodal_chance() == 0.0 < above.antipodal_chance()
    assert antipodal_beta(3) == antipodal_beta(2) == 0.0


@pytest.mark.parametrize(("dim", "beta", "rho"), [(3, 2.0, 0.0), (4, 2.0, 0.4), (8, 3.0, -0.3)])
def test_the_chance_to_end_opposite_solves_its_equation(dim, beta, rho):
    """s″ = −(2 drift/variance) s′ in ρ, by SciPy's solver in artanh ρ, from formulas in p and q."""

    def slope(y, state):
        r, flat = math.tanh(y), 1 / math.cosh(y) ** 2
        p = 1 / (1 + math.exp(-beta * (1 - r)))
        q = 1 - p
        b = 2 * p * q + (p * p + q * q) * r
        ratio = (2 * (dim - 1) * p * q - b) / (p * p + q * q)  # 2 drift/variance, times 1 − ρ²
        return [-ratio, math.exp(state[0]) * flat]

    # From −∞, where s′ is a power of 1 + ρ, with the constant that does not matter.
    ends = [-30.0, math.atanh(rho), 30.0]
    first = solve_ivp(slope, (0.0, ends[0]), [0.0, 0.0], method="DOP853", rtol=1e-11, atol=1e-30)
    start = [first.y[0, -1], 0.0]
    how = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-30, "t_eval": ends[1:]}
    there = solve_ivp(slope, (ends[0], ends[2]), start, **how).y[1]
    expected = 1 - there[0] / there[1]
    assert PairDiffusion(beta, dim).antipodal_chance(rho) == pytest.approx(expected, abs=1e-7)


def test_the_mean_time_to_leave_solves_its_equation():
    """½Var u″ + drift u′ = −1, u = 0 at the ends, by finite differences."""
    pair, low, high, rho = PairDiffusion(1.5, 5), -0.9, 0.8, 0.2
    y = np.linspace(math.atanh(low), math.atanh(high), 8001)
    gap = y[1] - y[0]
    drift = np.array([pair.drift_of_y(v) for v in y[1:-1]])
    half = np.array([pair.variance_of_y(v) for v in y[1:-1]]) / 2
    bands = np.zeros((3, len(drift)))
    bands[0, 1:] = (half / gap**2 + drift / (2 * gap))[:-1]
    bands[1] = -2 * half / gap**2
    bands[2, :-1] = (half / gap**2 - drift / (2 * gap))[1:]
    u = np.concatenate([[0], solve_banded((1, 1), bands, -np.ones(len(drift))), [0]])
    expected = float(np.interp(math.atanh(rho), y, u))
    assert pair.mean_exit_time(rho, low, high) == pytest.approx(expected, rel=1e-5)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="beta"):
        PairDiffusion(-1.0, 4)
    with pytest.raises(ValueError, match="dim"):
        PairDiffusion(1.0, 1)
    with pytest.raises(ValueError, match="rho"):
        PairDiffusion(1.0, 4).antipodal_chance(1.0)
    with pytest.raises(ValueError, match="random_keys"):
        PairDiffusion(1.0, 4, random_keys=True).antipodal_chance()


def layer(x, beta, square, normal):
    """Systems x (s, n, d) through one layer x ← N(x + εWm), written out."""
    weights = np.exp(beta * x @ x.transpose(0, 2, 1))
    means = weights / weights.sum(axis=2, keepdims=True) @ x
    y = x + math.sqrt(square) * means @ normal
    return y / np.linalg.norm(y, axis=2, keepdims=True)


@pytest.mark.parametrize(("tokens", "dim", "beta"), [(3, 3, 1.0), (6, 4, 3.0), (5, 12, 0.0)])
def test_generator_of_many_tokens_is_that_of_a_thin_layer(tokens, dim, beta):
    rng, draws, square = np.random.default_rng(tokens), 40_000, 2e-4
    x = rng.normal(size=(tokens, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    gram, normal = x @ x.T, rng.normal(size=(draws, dim, dim))
    ends = [layer(np.broadcast_to(x, (draws, tokens, dim)), beta, square, s * normal)
            for s in (1, -1)]  # fmt: skip
    grams = [y @ y.transpose(0, 2, 1) for y in ends]
    even, odd = (grams[0] + grams[1]) / 2 - gram, (grams[0] - grams[1]) / 2
    found = cosine_generator(gram, beta, dim)
    bias = 10 * dim * square
    off = np.abs(even.mean(axis=0) / square - found.drift)
    assert np.all(off < 4 * even.std(axis=0) / math.sqrt(draws) / square + bias)
    share = (odd**2).mean(axis=0) / square
    assert np.allclose(share, found.variance, rtol=0.05, atol=1e-9 + bias)
    similarity = (even.sum(axis=(1, 2)) - np.trace(even, axis1=1, axis2=2)) / tokens / (tokens - 1)
    error = similarity.std() / math.sqrt(draws) / square
    assert abs(similarity.mean() / square - found.mean) < 4 * error + bias
    if beta > 0:
        energies = [np.exp(beta * g).sum(axis=(1, 2)) / (2 * beta * tokens**2) for g in grams]
        gained = (energies[0] + energies[1]) / 2 - np.exp(beta * gram).sum() / (
            2 * beta * tokens**2
        )
        error = gained.std() / math.sqrt(draws) / square
        size = math.exp(beta) * bias
        assert abs(gained.mean() / square - energy_drift(gram, beta, dim)) < 4 * error + size


def test_two_tokens_gain_energy_on_average_above_the_circle():
    for beta in (0.01, 0.5, 2.0, 20.0):
        for rho in np.linspace(-0.999, 0.999, 41):
            gram = [[1.0, rho], [rho, 1.0]]
            assert energy_drift(gram, beta, 3) > 0 and energy_drift(gram, beta, 9) > 0
            falls = beta * (1 - rho**2) < rho  # on the circle, by hand
            assert (energy_drift(gram, beta, 2) < 0) == falls


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_mean_width_of_a_cluster_follows_its_moment_and_not_its_typical_rate(dim):
    """Five close tokens by layers; half of the time at twice the step takes the bias away."""
    rng, draws, horizon = np.random.default_rng(dim), 40_000, 0.3
    rates = []
    for square in (0.01, 0.02):
        x = np.eye(dim)[0] + 1e-5 * rng.normal(size=(draws, 5, dim))
        x /= np.linalg.norm(x, axis=2, keepdims=True)
        gap = lambda x: np.sum(np.var(x, axis=1), axis=1)
        first = gap(x)
        for _ in range(round(horizon / square)):
            x = layer(x, 1.0, square, rng.normal(size=(draws, dim, dim)))
        grown = gap(x) / first  # every pair's 1 − ρ grows by one factor
        error = grown.std() / math.sqrt(draws) / grown.mean() / horizon
        rates.append((math.log(grown.mean()) / horizon, error, np.log(grown).mean() / horizon))
    rate, error = 2 * rates[0][0] - rates[1][0], math.hypot(2 * rates[0][1], rates[1][1])
    assert abs(rate - moment_exponent(1.0, dim)) < 4 * error and error < 0.15
    assert 2 * rates[0][2] - rates[1][2] == pytest.approx(-(dim - 1), abs=0.15)


def test_bad_arguments_of_the_generator_are_named():
    for call in (
        lambda: cosine_generator([[1.0, 0.3]], 1.0, 3),
        lambda: cosine_generator([[2.0, 0.3], [0.3, 1.0]], 1.0, 3),
        lambda: cosine_generator(np.eye(2), -1.0, 3),
        lambda: energy_drift(np.eye(2), 0.0, 3),
        lambda: moment_exponent(-1.0, 3),
        lambda: moment_exponent(1.0, 1),
    ):
        with pytest.raises(ValueError, match="must"):
            call()
