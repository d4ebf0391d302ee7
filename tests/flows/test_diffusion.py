"""Noise on the sphere: decay of harmonics, the stationary law, and reproducible randomness."""

from __future__ import annotations

import numpy as np
import pytest
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
    "schedule": ms.Schedule.piecewise([ms.Noise(1.0), ms.Noise(2.0)], [0.5]),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_noise_inside_another_field_is_felt_or_refused(name):
    try:
        a, b = (ms.flow(START, WRAPPED[name], 0.2, frames=2, seed=s).points[-1] for s in (0, 1))
    except ValueError as error:
        assert "Noise" in str(error)
    else:
        assert np.abs(a - b).max() > 1e-3
