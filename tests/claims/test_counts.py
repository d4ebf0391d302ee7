"""First number of clusters: predicted distribution against simulated starts.

Both sides count the maxima of the potential Σ_j w_j e^{β⟨x,x_j⟩}. The simulators here are written
from the equations alone; the SA clock is used throughout.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ive

from metastable.geometry.harmonics import convolve, fourier_coefficients, harmonic_coefficients
from metastable.geometry.maxima import find_maxima
from metastable.theory.counts import count_distribution, expected_count, total_variation
from metastable.theory.spectrum import exit_time, max_rate

pytestmark = pytest.mark.claim

STEP = 0.2  # fourth order at rates below one: tokens are right to 1e−5


def runge_kutta(x, velocity, start, stop):
    steps = math.ceil((stop - start) / STEP)
    h = x.dtype.type((stop - start) / steps)
    for _ in range(steps):
        a = velocity(x)
        b = velocity(x + h / 2 * a)
        c = velocity(x + h / 2 * b)
        x = x + h / 6 * (a + 2 * b + 2 * c + velocity(x + h * c))
    return x


def simulate_circle(beta, tokens, times, seeds):
    """Angles (times, seeds, tokens) of SA from independent uniform tokens.

    θ̇ = Z′(θ)/(βZ(θ)) with Z = Σ_k I_k(β) μ̂_k e^{ikθ}: O(tokens·K) for a step.
    """
    k = np.arange(math.ceil(math.sqrt(60 * beta)) + 10)
    kernel = np.where(k > 0, 2, 1) * ive(k, beta)

    def velocity(theta):
        waves = np.ones((len(theta), len(k), tokens), complex)
        turn = np.exp(1j * theta)
        for j in k[1:]:
            np.multiply(waves[:, j - 1], turn, out=waves[:, j])
        mean = kernel * waves.mean(2).conj()
        field = np.stack([mean, 1j * k * mean], 1) @ waves
        return field[:, 1].real / (beta * field[:, 0].real)

    frames = np.empty((len(times), len(seeds), tokens))
    for batch in np.array_split(np.arange(len(seeds)), math.ceil(len(seeds) / 4)):
        theta = np.stack(
            [np.random.default_rng(seeds[s]).uniform(0, 2 * np.pi, tokens) for s in batch]
        )
        for frame, (start, stop) in enumerate(zip([0.0, *times[:-1]], times, strict=True)):
            theta = runge_kutta(theta, velocity, start, stop)
            frames[frame, batch] = theta
    return frames


def simulate_sphere(beta, tokens, times, seeds):
    """Unit vectors (times, seeds, tokens, 3) of SA from independent uniform tokens, dense sums.

    Single precision: positions are right to 1e−5, and the maxima do not see more.
    """
    beta = np.float32(beta)
    force = np.empty((tokens, tokens), np.float32)

    def velocity(x):
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        np.matmul(x, beta * x.T, out=force)
        np.exp(np.subtract(force, beta, out=force), out=force)
        pull = force @ x / force.sum(1, keepdims=True)
        return pull - np.sum(x * pull, 1, keepdims=True) * x

    frames = np.empty((len(times), len(seeds), tokens, 3))
    for s, seed in enumerate(seeds):
        x = np.random.default_rng(seed).standard_normal((tokens, 3)).astype(np.float32)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        for frame, (start, stop) in enumerate(zip([0.0, *times[:-1]], times, strict=True)):
            x = runge_kutta(x, velocity, start, stop)
            frames[frame, s] = x
    return frames / np.linalg.norm(frames, axis=-1, keepdims=True)


def count_clusters(coefficients, beta, dim):
    degree = np.arange(math.ceil(math.sqrt(46 * beta)) + 2)
    return find_maxima(
        convolve(coefficients(degree[-1]), ive(degree + dim / 2 - 1, beta), dim), dim
    ).counts


def frequencies(counts):
    numbers, often = np.unique(counts, return_counts=True)
    return {int(k): f / counts.size for k, f in zip(numbers, often, strict=True)}


@pytest.mark.parametrize("beta", [5.0, 7.0, 10.0])
def test_distribution_of_counts_on_the_circle(beta):
    tokens, seeds = 1000, range(10_000, 10_500)
    leave = exit_time(tokens, max_rate(beta, 2))
    frames = simulate_circle(beta, tokens, [leave, leave + 8], seeds)
    for frame, later, allowed in zip(frames, (0.0, 8.0), (0.15, 0.2), strict=True):
        seen = count_clusters(lambda top, x=frame: fourier_coefficients(x, degree=top), beta, 2)
        observed = frequencies(seen)
        right, low, high = (
            count_distribution(factor * beta, 2, tokens, later=later) for factor in (1.0, 0.7, 1.3)
        )
        distance = total_variation(right.counts, observed)
        wrong = [total_variation(p.counts, observed) for p in (low, high)]
        print(
            f"β={beta:g} t_exit+{later:g}: mean seen {seen.mean():.3f}, predicted "
            f"{right.mean:.3f} ± {right.standard_error:.3f}; distance {distance:.3f}, "
            f"with β 30 % low {wrong[0]:.3f}, high {wrong[1]:.3f}"
        )
        assert distance <= allowed < min(wrong)


@pytest.mark.parametrize("beta", [10.0, 20.0, 40.0])
def test_mean_count_on_the_sphere(beta):
    # β/√3 is the count of the pattern at exit; up to a tenth of it has merged five units later.
    tokens, seeds = 1500, range(20_000, 20_100)
    leave = exit_time(tokens, max_rate(beta, 3))
    frames = simulate_sphere(beta, tokens, [leave, leave + 5], seeds)
    for frame, later in zip(frames, (0.0, 5.0), strict=True):
        seen = count_clusters(
            lambda top, x=frame: np.stack([harmonic_coefficients(y, degree=top) for y in x]),
            beta,
            3,
        )
        error = seen.std(ddof=1) / math.sqrt(len(seen))
        predicted = count_distribution(beta, 3, tokens, later=later, samples=300)
        rule = expected_count(beta, 3)
        print(
            f"β={beta:g} t_exit+{later:g}: mean seen {seen.mean():.2f} ± {error:.2f}, predicted "
            f"{predicted.mean:.2f} ± {predicted.standard_error:.2f}, "
            f"β/√3 = {rule:.2f}"
        )
        assert abs(seen.mean() - rule) < 0.1 * rule
        assert abs(predicted.mean / seen.mean() - 1) < 0.07
