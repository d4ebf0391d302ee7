import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import ive

from metastable.measures import Points
from metastable.observe import clusters, energy, phases, plateaus

BETA, MASSES = 9.0, np.array([0.2, 0.3, 0.5])


def velocity(theta, masses):
    """SA on the circle with masses, written out."""
    gap = theta[None, :] - theta[:, None]
    kernel = masses * np.exp(BETA * (np.cos(gap) - 1))
    return np.sum(kernel * np.sin(gap), axis=1) / np.sum(kernel, axis=1)


@pytest.fixture(scope="module")
def staircase():
    """Three weighted tokens at 0, 1 and 3 radians until one is left."""
    times = np.concatenate([[0.0], np.geomspace(0.1, 1e9, 400)])
    run = solve_ivp(
        lambda t, y: velocity(y, MASSES),
        (0, times[-1]),
        [0.0, 1.0, 3.0],
        method="Radau",
        t_eval=times,
        rtol=1e-9,
        atol=1e-11,
    )
    frames = [Points(np.stack([np.cos(y), np.sin(y)], axis=1), MASSES) for y in run.y.T]
    return times, run.y, frames


def two_body_time(one, two, start, stop):
    """Time for masses one and two to come from angle start to stop, by quadrature."""
    near = lambda phi: np.exp(BETA * (np.cos(phi) - 1))
    speed = lambda phi: (
        np.sin(phi)
        * (two * near(phi) / (one + two * near(phi)) + one * near(phi) / (two + one * near(phi)))
    )
    return quad(lambda phi: 1 / speed(phi), stop, start, limit=200)[0]


def test_counts_of_the_staircase(staircase):
    times, angles, frames = staircase
    counts = [clusters(frame, BETA).count for frame in frames]
    found = plateaus(times, counts)
    assert [p.value for p in found] == [3, 2, 1]
    assert (found[0].start, found[-1].end) == (times[0], times[-1])
    # First merger: to leading order the third token does not act on the pair. The linkage angle
    # is 0.2, and frames are 6% apart.
    step = times[2] / times[1]
    first = two_body_time(0.2, 0.3, 1.0, 0.2)
    assert found[0].end <= first * 1.01 and found[1].start >= first * 0.99
    assert found[1].start / found[0].end == pytest.approx(step, rel=1e-9)
    # Second merger: from where the pair sits once it is together.
    i = np.searchsorted(times, 10 * first)
    pair = angles[:2, i].mean()
    second = times[i] + two_body_time(0.5, 0.5, angles[2, i] - pair, 0.2)
    assert found[1].end <= second * 1.001 and found[2].start >= second * 0.999


def test_energy_of_the_staircase(staircase):
    # 2βe^{−β}E stands at Σ (cluster mass)² and jumps by 2 w_i w_j (arXiv:2410.06833).
    times, _, frames = staircase
    scaled = [float(energy(frame, BETA, scaled=True)) for frame in frames]
    assert (np.diff(scaled) > -1e-9).all()
    levels = [p.value for p in plateaus(times, scaled, tolerance=0.01)]
    assert levels == pytest.approx([0.38, 0.38 + 2 * 0.06, 1.0], abs=0.01)


def test_plateaus_by_hand():
    times = np.array([0.0, 1, 2, 4, 8, 16, 32, 64])
    # A flicker of one frame does not cut a plateau; a short stay is none.
    found = plateaus(times, [3, 3, 3, 2, 3, 3, 3, 3], min_log_length=0.6)
    assert [(p.start, p.end, p.value) for p in found] == [(0, 64, 3)]
    found = plateaus(times, [5, 5, 5, 4, 4, 2, 2, 2], min_log_length=1.0)
    assert [(p.start, p.end, p.value) for p in found] == [(16, 64, 2)]
    assert plateaus([0.0], [1]) == []
    assert len(plateaus([0.0], [1], min_log_length=0)) == 1


def test_logistic_growth():
    # ȧ = λa(1 − a): rate within 10% until a = 0.1, half at a = 0.5.
    rate, start = 0.7, 1e-4
    times = np.linspace(0, 30, 3001)
    a = 1 / (1 + (1 / start - 1) * np.exp(-rate * times))
    crossing = lambda level: np.log((1 / start - 1) / (1 / level - 1)) / rate
    found = phases(times, a)
    assert found.rate == pytest.approx(rate, rel=0.02) and found.mode == 1
    assert found.linear == pytest.approx((0, crossing(0.1)), abs=0.02)
    assert found.quasilinear[1] == pytest.approx(crossing(0.5), abs=0.05)
    exact = phases(times, a, rate=rate, tolerance=0.05)
    assert exact.linear[1] == pytest.approx(crossing(0.05), abs=0.02)
    assert exact.quasilinear == (exact.linear[1], pytest.approx(crossing(0.5), abs=0.02))
    assert exact.collapsing == (exact.quasilinear[1], 30)


def test_dominant_mode_and_missing_phases():
    times = np.linspace(0, 3.5, 200)
    columns = np.stack([2e-3 * np.exp(0.3 * times), 1e-3 * np.exp(1.2 * times)], axis=1)
    found = phases(times, columns)
    assert (found.mode, found.quasilinear, found.collapsing) == (2, None, None)
    assert found.rate == pytest.approx(1.2, rel=1e-9) and found.linear == (0, 3.5)
    late = phases(times, np.full(200, 0.9))
    assert (late.linear, late.quasilinear, late.collapsing) == (None, None, (0, 3.5))
    assert phases([0.0], [0.5]).collapsing == phases([0.0], [0.01]).linear == (0, 0)


def test_phases_of_a_run_from_uniform():
    """2000 tokens on the circle at β = 5, evolved with the exact Fourier sum, fixed RK4 steps.

    Oracle: linear theory, λ_k = (k²/β) I_k/I_0 and |μ̂_k| = 0.1 at ln(0.1/|μ̂_k(0)|)/λ_k.
    """
    beta, n, step = 5.0, 2000, 0.1
    theta = np.random.default_rng(3).uniform(0, 2 * np.pi, n)
    k = np.arange(1, 28)
    kernel, mass = ive(k, beta), ive(0, beta)

    def move(theta):
        waves = np.exp(-1j * np.outer(k, theta))
        own = waves.mean(axis=1)
        field = own[:, None] * waves.conj()
        potential = mass + 2 * kernel @ field.real
        return -2 * (k * kernel) @ field.imag / potential / beta, np.abs(own[:8])

    rows = []
    for _ in range(140):
        one, amplitude = move(theta)
        rows.append(amplitude)
        two, _ = move(theta + step / 2 * one)
        three, _ = move(theta + step / 2 * two)
        four, _ = move(theta + step * three)
        theta = theta + step / 6 * (one + 2 * two + 2 * three + four)
    found = phases(step * np.arange(140), rows)
    rates = k**2 / beta * kernel / mass
    assert found.rate == pytest.approx(rates[found.mode - 1], rel=0.05)
    small = np.log(0.1 / rows[0][found.mode - 1]) / rates[found.mode - 1]
    assert found.linear == (0, pytest.approx(small, rel=0.05))
    # Logistic growth would need another ln 9 / λ from 0.1 to 0.5.
    later = small + np.log(9) / rates[found.mode - 1]
    assert found.collapsing[0] == pytest.approx(later, rel=0.15)


def test_messages():
    with pytest.raises(ValueError, match="times must increase"):
        plateaus([0, 2, 1], [1, 1, 1])
    with pytest.raises(ValueError, match=r"one row per time \(3\); got shape \(2,\)"):
        phases([0, 1, 2], [1, 1])
