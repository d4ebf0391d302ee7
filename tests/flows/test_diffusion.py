"""Noise on the sphere: decay of harmonics, the stationary law, and reproducible randomness."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import eval_legendre

import metastable as ms
from tests.oracles import resultant_length

N = 20_000
KAPPA = 2.0


@pytest.fixture(scope="module", params=[2, 3], ids=["circle", "sphere"])
def spread(request):
    """All tokens start at the first axis; then pure noise."""
    dim = request.param
    start = ms.Points(np.tile(np.eye(dim)[0], (N, 1)))
    # On S² a step h shifts the decay rates by h/(6κ), here 0.4 %: far below the sampling error.
    steps = ms.Geodesic(0.05)
    return dim, ms.flow(start, ms.Noise(KAPPA), 12.0, frames=[0.3, 1.0], stepper=steps, seed=11)


@pytest.mark.parametrize("degree", [1, 2])
def test_modes_decay_at_the_eigenvalues_of_the_laplacian(spread, degree):
    dim, run = spread
    for t, frame in zip(run.times[1:3], run.frames[1:3], strict=True):
        h = np.asarray(frame.points)[:, 0]
        mode = (
            np.cos(degree * np.arccos(np.clip(h, -1, 1))) if dim == 2 else eval_legendre(degree, h)
        )
        expected = np.exp(-degree * (degree + dim - 2) * t / KAPPA)
        assert abs(mode.mean() - expected) < 4 * mode.std() / np.sqrt(N)
        assert np.abs(np.linalg.norm(frame.points, axis=1) - 1).max() < 1e-12


def test_pure_noise_ends_uniform(spread):
    # At t = 12 every mode has decayed below e^{−6} (circle) and e^{−12} (sphere).
    dim, run = spread
    x = np.asarray(run.frames[-1].points)
    tail = np.exp(-(dim - 1) * 12 / KAPPA)
    assert np.abs(x.mean(0)).max() < 4 / np.sqrt(N * dim) + tail
    variance = 3 / (dim * (dim + 2)) - 1 / dim**2
    assert np.abs(x.T @ x / N - np.eye(dim) / dim).max() < 4 * np.sqrt(variance / N) + tail


def test_tokens_in_space_spread_like_the_heat_kernel():
    start = ms.Points(np.zeros((N, 2)), on_sphere=False)
    x = ms.flow(start, ms.Noise(KAPPA), 1.0, frames=2, stepper=ms.Geodesic(0.25)).points[-1]
    # Each axis is N(0, 2t/κ); the sample variance has relative error √(2/N).
    assert np.abs(x.var(0) / (2 / KAPPA) - 1).max() < 5 * np.sqrt(2 / N)


def test_noises_add_their_rates():
    start = ms.Points(np.zeros((N, 2)), on_sphere=False)
    field = ms.Noise(3.0) + ms.Noise(6.0)  # 1/3 + 1/6 = 1/2
    x = ms.flow(start, field, 1.0, frames=2, stepper=ms.Geodesic(0.25)).points[-1]
    assert np.abs(x.var(0) / (2 / KAPPA) - 1).max() < 5 * np.sqrt(2 / N)


def test_drift_and_noise_balance_in_a_von_mises_law():
    # dθ = −a sin θ dt + √(2/κ) dW has the stationary density ∝ e^{κa cos θ}.
    start = ms.Points(np.tile([1.0, 0.0], (N, 1)))
    field = Anchor(1.5) + ms.Noise(KAPPA)
    run = ms.flow(start, field, 8.0, frames=2, stepper=ms.Geodesic(0.05), seed=3)
    c = np.asarray(run.frames[-1].points)[:, 0]
    assert abs(c.mean() - resultant_length(2, 1.5 * KAPPA)) < 4 * c.std() / np.sqrt(N)


def pulled_cosine(strength, time, angle, modes=60):
    """E cos θ(t) for dθ = −a sin θ dt + √(2/κ) dW from θ(0): the generator on Fourier modes."""
    n = np.arange(-modes, modes + 1)
    generator = np.diag(-(n**2) / KAPPA)
    generator += np.diag(-0.5 * strength * n[:-1], -1) + np.diag(0.5 * strength * n[1:], 1)
    cosine = 0.5 * (np.abs(n) == 1)
    return (np.exp(1j * n * angle) @ expm(time * generator) @ cosine).real


def test_steps_with_drift_are_of_weak_order_two_on_the_circle():
    # The Brownian steps are exact there, and half a step, the midpoint rule, half a step is a
    # symmetric splitting: the error of a mean is C h² + O(h³), so that halving h divides it by
    # nearly 4. An Euler drift would divide it by about 2.4.
    tokens, angle = 400_000, 2.5
    start = ms.Points(np.tile([np.cos(angle), np.sin(angle)], (tokens, 1)))
    exact = pulled_cosine(3.0, 1.0, angle)
    errors = []
    for step in (0.5, 0.25):
        steps = ms.Geodesic(step)
        run = ms.flow(start, Anchor(3.0) + ms.Noise(KAPPA), 1.0, frames=2, stepper=steps, seed=8)
        cosines = run.points[-1][:, 0]
        errors.append(cosines.mean() - exact)
        sampling = cosines.std() / np.sqrt(tokens)
    # The second error is known to 3 %, so the quotient to about 0.12.
    assert abs(errors[1]) > 25 * sampling
    assert errors[0] / errors[1] == pytest.approx(4, abs=0.7)


class Anchor(ms.Field):
    """A pull of given strength to the first axis: a field a user might write."""

    strength: float

    @property
    def clock(self):
        return "anchor"

    def drift(self, measure, at, t, sum):
        return self.strength * np.eye(measure.dim)[0] + 0.0 * at.points


FIELD = ms.SelfAttention(3.0) + ms.Noise(20.0)
START = ms.uniform(6, 3, seed=4)
NOISY = dict(horizon=1.0, stepper=ms.Geodesic(0.05))


def test_the_seed_decides_the_noise():
    a, b, c = (ms.flow(START, FIELD, **NOISY, frames=5, seed=s).points for s in (0, 0, 1))
    assert np.array_equal(a, b)
    assert np.abs(a[-1] - c[-1]).max() > 0.05
    assert np.array_equal(a[0], c[0])


def test_frames_do_not_change_the_noise_when_the_steps_are_the_same():
    # Steps of 0.05 end at every frame of both grids.
    coarse = ms.flow(START, FIELD, **NOISY, frames=5)
    fine = ms.flow(START, FIELD, **NOISY, frames=21)
    assert coarse.statistics["steps"] == fine.statistics["steps"] == 20
    assert np.abs(fine.points[::5] - coarse.points).max() < 1e-12


def test_tokens_get_independent_noise():
    start = ms.Points(np.tile([1.0, 0.0], (N, 1)))
    x = ms.flow(start, ms.Noise(KAPPA), 0.3, frames=2, stepper=ms.Geodesic(0.1)).points[-1]
    theta = np.arctan2(x[:, 1], x[:, 0])
    assert abs(np.corrcoef(theta[:-1], theta[1:])[0, 1]) < 4 / np.sqrt(N)


WRAPPED = {
    "block": ms.Block(FIELD, ms.PostNorm()),
    "gain": ms.Gain(FIELD, np.ones(3)),
    "heads": ms.MultiHead([ms.SelfAttention(1.0), ms.Noise(1.0)]),
    "perceptron": ms.FeedForward(after=FIELD),
    "schedule": ms.Schedule.piecewise([ms.Noise(1.0), ms.Noise(2.0)], [0.5]),
    "added": ms.SelfAttention(1.0) + ms.Block(FIELD, ms.PostNorm()),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_noise_inside_another_field_is_refused(name):
    # A block or a head acts on a force; noise is a term of the equation, and would be lost there.
    with pytest.raises(ValueError, match=r"Noise must be added to the outermost field"):
        ms.flow(START, WRAPPED[name], 0.2, frames=2)


@pytest.mark.parametrize("kappa", [1e-300, 1e-20])
def test_noise_that_needs_too_many_steps_is_refused_before_the_first(kappa):
    field = ms.SelfAttention(1.0) + ms.Noise(kappa)
    with pytest.raises(ValueError, match=r"horizon must be at most max_steps = 100000000 steps"):
        ms.flow(START, field, 0.5)


def test_noise_without_a_finite_rate_is_refused():
    with pytest.raises(ValueError, match=r"kappa must be at least 2\.2e-308.*got 4\.94066e-324"):
        ms.Noise(5e-324)


def test_the_steps_of_equal_steppers_are_bounded_and_the_bound_can_be_raised():
    with pytest.raises(ValueError, match=r"max_steps = 19 steps of 0\.05; got 1, which is 20"):
        ms.flow(START, FIELD, 1.0, stepper=ms.Geodesic(0.05, max_steps=19))
    run = ms.flow(START, FIELD, 1.0, frames=5, stepper=ms.Geodesic(0.05, max_steps=20))
    assert run.outcome.name == "done" and run.statistics["steps"] == 20
    plain, gaussian = ms.SelfAttention(1.0), ms.Gaussian([0.0], [[1.0]])
    for measure in (START, gaussian):
        with pytest.raises(ValueError, match=r"horizon must be at most max_steps = 10000000"):
            ms.flow(measure, plain, 1.0, stepper=ms.Fixed(1e-12))
