"""The predicted count against limits, closed forms and SciPy's integrator."""

import math

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from metastable.theory import counts
from metastable.theory.counts import (
    count_distribution,
    expected_count,
    fewest_tokens,
    predicted_angles,
    too_few,
    total_variation,
)
from metastable.theory.spectrum import dominant_mode, exit_time, growth_rates


def integrate(points, masses, beta, time, normalized):
    """The flow of a few massive points by SciPy, from the equation as written."""
    shape = points.shape

    def field(_, y):
        x = y.reshape(shape)
        force = masses * np.exp(beta * (x @ x.T))
        pull = force @ x / (force.sum(1, keepdims=True) if normalized else 1.0)
        return (pull - np.sum(x * pull, 1, keepdims=True) * x).ravel()

    solution = solve_ivp(field, (0, time), points.ravel(), rtol=1e-10, atol=1e-12)
    return solution.y[:, -1].reshape(shape)


@pytest.mark.parametrize(("beta", "count"), [(0.5, 1), (2.0, 2), (5.0, 3), (7.0, 4)])
def test_with_enormously_many_tokens_only_the_dominant_mode_is_left(beta, count):
    assert dominant_mode(beta, 2) == count
    prediction = count_distribution(beta, 2, 10**150, samples=200)
    assert prediction.counts == {count: 1.0}
    assert (prediction.mean, prediction.standard_error) == (count, 0.0)


def test_sphere_with_enormously_many_tokens_shows_a_random_harmonic():
    # Degree ℓ* = 6 at β = 20 by a margin; its mean number of maxima is ℓ(ℓ+1)/(2√3) + O(1).
    ell = dominant_mode(20.0, 3)
    prediction = count_distribution(20.0, 3, 10**150, samples=150)
    assert abs(prediction.mean - ell * (ell + 1) / (2 * math.sqrt(3))) < 1


def test_linear_growth_ends_at_contrast_one_or_at_exit():
    for dim, square in ((2, lambda a: 2 * np.abs(a) ** 2), (3, lambda a: a**2)):
        rates = np.r_[0.0, growth_rates(7.0, dim, 20)]
        start = counts._initial_amplitudes(100, dim, 20, 300, np.random.default_rng(0))
        time = counts._linear_time(start, rates, 100, dim)
        grown = counts.convolve(start, np.expm1(rates * time[:, None]), dim)
        contrast = np.sqrt(np.sum(square(grown), 1))
        at_exit = time == exit_time(100, rates.max())
        np.testing.assert_allclose(contrast[~at_exit], 1, rtol=1e-5)
        assert np.all(contrast[at_exit] <= 1)
        assert 0 < np.sum(~at_exit)


@pytest.mark.parametrize("dim", [2, 3])
def test_initial_amplitudes_are_those_of_independent_tokens(dim):
    drawn = counts._initial_amplitudes(50, dim, 6, 8000, np.random.default_rng(1))
    x = np.random.default_rng(2).standard_normal((8000, 50, dim))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    tokens = counts._coefficients(x, np.full((8000, 50), 1 / 50), 6)
    assert np.all(drawn[:, 0] == 1)
    for amplitudes in (drawn, tokens):
        spread = np.mean(np.abs(amplitudes[:, 1:]) ** 2, axis=0)
        np.testing.assert_allclose(spread, 1 / 50, rtol=0.1)  # six standard errors


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("normalized", [True, False])
def test_massive_points_move_by_the_exact_field(dim, normalized):
    beta, rng = 5.0, np.random.default_rng(3)
    points = rng.standard_normal((6, 4, dim))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    masses = rng.dirichlet(np.ones(4), 6)
    masses[0, 3], masses[0, :3] = 0.0, [0.2, 0.3, 0.5]
    time = 1.5 if normalized else 1.5 / math.exp(beta)
    moved, left = counts._move(points, masses, beta, time, normalized)
    for row in range(6):
        expected = integrate(points[row], masses[row], beta, time, normalized)
        heavy = left[row] > 0
        gaps = np.linalg.norm(moved[row] - expected, axis=1)[heavy]
        assert gaps.max() < 0.02 / math.sqrt(beta)  # twice the distance at which points merge
    np.testing.assert_allclose(left.sum(1), 1, rtol=1e-14)


def test_two_equal_clusters_meet_when_the_quadrature_says():
    # T = ∫ (e^{β(1−γ)}+1)/(2(1−γ²)) dγ on the SA clock, γ the inner product.
    beta, far, near = 4.0, 0.2, 0.99
    time, _ = quad(lambda g: (math.exp(beta * (1 - g)) + 1) / (2 * (1 - g * g)), far, near)
    half = math.acos(far) / 2
    pair = np.array([[[math.cos(half), math.sin(half)], [math.cos(half), -math.sin(half)]]])
    moved, _ = counts._move(pair, np.full((1, 2), 0.5), beta, time, True)
    assert abs(math.acos(moved[0, 0] @ moved[0, 1]) - math.acos(near)) < 2e-3


@pytest.mark.parametrize("normalized", [True, False])
def test_on_the_sphere_everything_ends_in_one_cluster(normalized):
    # Proved for d ≥ 3, every β ≥ 0; crosses plateaus of length e^{2β} and more.
    prediction = count_distribution(
        5.0, 3, 200, later=1e9, normalized=normalized, samples=20, seed=4
    )
    assert prediction.counts == {1: 1.0}


def test_the_pattern_at_exit_is_the_same_on_both_clocks_and_repeats_with_the_seed():
    softmax = count_distribution(7.0, 2, 500, samples=200, seed=5)
    unnormalized = count_distribution(7.0, 2, 500, samples=200, seed=5, normalized=False)
    other = count_distribution(7.0, 2, 500, samples=200, seed=6)
    assert softmax == unnormalized != other
    assert math.isclose(sum(softmax.counts.values()), 1)
    assert math.isclose(softmax.mean, sum(k * p for k, p in softmax.counts.items()))


def test_clusters_merge_with_time():
    means = [count_distribution(10.0, 2, 1000, later=t, samples=400).mean for t in (0, 2, 8, 50)]
    assert means == sorted(means, reverse=True) and means[0] > means[-1] + 0.2


def test_expected_count():
    assert math.isclose(expected_count(50.0, 2), 10.0)
    assert math.isclose(expected_count(30.0, 3), 30 / math.sqrt(3))
    assert expected_count(0.1, 2) == expected_count(0.1, 3) == 1.0
    for beta in (5.0, 20.0, 300.0):
        assert abs(expected_count(beta, 2) - dominant_mode(beta, 2)) < 0.51


@pytest.mark.parametrize("dim", [2, 3])
def test_rule_of_thumb_agrees_with_the_distribution_at_exit(dim):
    prediction = count_distribution(20.0, dim, 1000, samples=200)
    assert abs(prediction.mean / expected_count(20.0, dim) - 1) < 0.1


def test_predicted_angles_are_the_crests_of_the_dominant_wave():
    # Tokens at q + ε sin(k(q − α)) have density 1 − εk cos(k(q − α)) to first order, so the
    # crests are half a wave away from α.
    k, alpha = dominant_mode(7.0, 2), 0.4
    q = 2 * np.pi * np.arange(900) / 900
    angles = q + 0.01 * np.sin(k * (q - alpha)) + 0.003 * np.sin(q)
    expected = np.sort((alpha + np.pi / k + 2 * np.pi * np.arange(k) / k) % (2 * np.pi))
    np.testing.assert_allclose(predicted_angles(angles, None, 7.0), expected, atol=2e-3)
    # A token of double weight is two tokens.
    doubled = predicted_angles(np.r_[angles, angles[0]], None, 7.0)
    weights = np.full(900, 1 / 901)
    weights[0] *= 2
    np.testing.assert_allclose(predicted_angles(angles, weights, 7.0), doubled, atol=1e-12)


def test_total_variation():
    assert total_variation({1: 1.0}, {2: 1.0}) == 1.0
    assert math.isclose(total_variation({3: 0.7, 4: 0.3}, {3: 0.6, 4: 0.3, 5: 0.1}), 0.1)


@pytest.mark.parametrize(
    ("beta", "dim", "tokens", "samples", "deviation"),
    [(59.0, 2, 1000, 2000, 0.06), (59.0, 2, 10**12, 2000, 0.06), (12.0, 3, 2000, 400, 0.15)],
)
def test_the_law_of_many_maxima_is_that_of_the_samples(beta, dim, tokens, samples, deviation):
    drawn = count_distribution(beta, dim, tokens, samples=samples)
    assert drawn.standard_error > 0 and count_distribution(61.0, dim, tokens).standard_error == 0
    law = counts._many_maxima(beta, dim, tokens)
    assert law.mean == pytest.approx(drawn.mean, rel=0.01, abs=4 * drawn.standard_error)
    assert law.deviation == pytest.approx(drawn.deviation, rel=deviation)
    # Two samples of this size differ by about √(8/(π·samples)) per likely count, halved.
    assert total_variation(law.counts, drawn.counts) < 0.1
    assert math.isclose(sum(law.counts.values()), 1, abs_tol=1e-6)


@pytest.mark.parametrize("dim", [2, 3])
def test_scaled_law_is_the_law_worked_out_in_full(dim, monkeypatch):
    # In units of the wavelength the potential is the same up to O(1/β).
    beta, tokens = 20_000.0, 10**9
    scaled = count_distribution(beta, dim, tokens)
    monkeypatch.setattr(counts, "_SCALED_FROM", beta)
    full = count_distribution(beta, dim, tokens)
    assert scaled.mean == pytest.approx(full.mean, rel=1e-3)
    assert scaled.deviation == pytest.approx(full.deviation, rel=1e-3)


def test_huge_rings_of_clusters_have_a_mean_and_no_list():
    law = count_distribution(1e30, 2, 10**18)
    assert law.counts == {} and 0.9 < law.mean / expected_count(1e30, 2) < 1
    assert 0 < law.deviation < 1e-6 * law.mean


def test_a_tiny_beta_has_one_cluster():
    # Only mode 1 grows: the sampled potential has one maximum, however flat it is.
    for dim in (2, 3):
        assert count_distribution(1e-300, dim, 100, samples=20).counts == {1: 1.0}


def test_no_law_for_fewer_tokens_than_modes():
    assert fewest_tokens(5.0, 2) == 8 * 3 and fewest_tokens(20.0, 3) == 8 * 6**2
    assert too_few(5.0, 2, 24) is None
    assert too_few(5000.0, 2, 64) == "64 tokens are too few for ℓ* = 100 modes: the law needs 800"
    with pytest.raises(ValueError, match="tokens must be at least 24 for this law"):
        count_distribution(5.0, 2, 2)


def test_arguments_are_checked():
    for arguments, message in [
        (dict(beta=5.0, dim=4, tokens=100), "dim must be 2 or 3, got 4"),
        (dict(beta=0.0, dim=2, tokens=100), "beta must be finite and > 0, got 0.0"),
        (dict(beta=5.0, dim=2, tokens=1), "tokens must be at least 2, got 1"),
        (dict(beta=5.0, dim=2, tokens=9, later=-1.0), "later must be finite and >= 0, got -1.0"),
        (dict(beta=5.0, dim=2, tokens=9, samples=1), "samples must be at least 2, got 1"),
        (dict(beta=800.0, dim=2, tokens=9, later=1.0, normalized=False), "at most 700"),
    ]:
        with pytest.raises(ValueError, match=message):
            count_distribution(**arguments)
    with pytest.raises(ValueError, match="dim must be 2 or 3, got 5"):
        expected_count(5.0, 5)
