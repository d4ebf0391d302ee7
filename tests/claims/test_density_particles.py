"""Densities against particles: quiet starts, sampling error, characteristics, published runs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import metastable as ms
from metastable.flows import Adaptive, Resolution, push
from metastable.geometry.harmonics import multiplicity
from metastable.measures import Density
from metastable.observe import amplitudes, modes, peaks, phases, power, sobolev_distance
from metastable.theory.counts import count_distribution, total_variation
from metastable.theory.spectrum import dominant_mode, exit_time, max_rate

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("beta", [5.0, 9.0])
def test_fifty_thousand_quiet_tokens_follow_the_density(beta):
    """Fourier modes agree to 1e−3 through the quasi-linear phase."""
    leading = dominant_mode(beta, 2)
    c = np.zeros(leading + 2, complex)
    c[0], c[leading], c[leading + 1], c[1] = 1.0, 0.02, 0.01j, 0.005
    start = Density(c, 2)
    field, rate = ms.SelfAttention(beta), max_rate(beta, 2)
    dense = ms.flow(start, field, 12.0, frames=49, stepper=Resolution(64, 1024))
    table = np.array([amplitudes(frame, 2 * leading) for frame in dense.frames])
    found = phases(dense.times, table, rate=rate)
    assert found.mode == leading and found.quasilinear is not None
    chosen = dense.times <= found.quasilinear[1]
    assert found.quasilinear[1] < dense.times[-1] or found.collapsing is None
    tokens = ms.flow(
        start.to_points(50_000),
        field,
        float(dense.times[chosen][-1]),
        frames=dense.times[chosen],
        stepper=Adaptive(1e-7, 1e-7),
    )
    gaps = [
        np.abs(modes(a, 3 * leading) - modes(b, 3 * leading)).max()
        for a, b in zip(dense.frames, tokens.frames, strict=False)
    ]
    print(beta, found, "largest gap", max(gaps))
    assert max(gaps) < 1e-3 and table[chosen].max() > 0.4


def sampling_error(density, tokens, s, highest):
    """√E‖μ_n − μ‖²_{H^{−s}} of n independent tokens: (1/n) Σ (1+L)^{−s}(N_ℓ − power_ℓ)."""
    ell = np.arange(1, highest + 1)
    counts = np.array([float(multiplicity(int(k), density.dim)) for k in ell])
    spread = counts - power(density, highest)[1:]
    return np.sqrt(np.sum((1.0 + ell * (ell + density.dim - 2)) ** -s * spread) / tokens)


def test_distance_of_tokens_to_the_density_falls_like_the_root_of_n():
    """Slope −0.5 ± 0.05 in H^{−1} before exit, 40 seeds for each n.

    With fewer tokens, or later, their noise leaves the linear phase and the slope is flatter.
    """
    start, field, horizon = Density.mode(2, 3, 0.05), ms.SelfAttention(5.0), 2.0
    end = ms.flow(start, field, horizon, frames=2).frames[-1]
    counts = np.array([500, 2000, 8000, 32_000])
    errors = []
    for n in counts:
        squares = []
        for seed in range(40):
            run = ms.flow(
                start.sample(int(n), seed), field, horizon, frames=2, stepper=Adaptive(1e-6, 1e-6)
            )
            squares.append(sobolev_distance(run.frames[-1], 1.0, end, highest=32) ** 2)
        errors.append(np.sqrt(np.mean(squares)))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    print("slope", slope, errors)
    assert slope == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize(("dim", "noise"), [(2, None), (2, 20.0), (3, None), (8, None)])
def test_tokens_pushed_along_stay_at_sampling_error(dim, noise):
    field = ms.SelfAttention(5.0)
    field = field if noise is None else field + ms.Noise(noise)
    degree = dominant_mode(5.0, dim)
    start = Density.mode(dim, degree, 0.1)
    run = ms.flow(start, field, 2.0, frames=3, stepper=Resolution(32 if dim != 3 else 16))
    assert run.outcome.name == "done"
    n, highest = (4000, 16) if dim != 8 else (1000, 4)
    carried = push(run, start.sample(n, seed=5))
    assert np.abs(np.asarray(carried.frames[-1].points - carried.frames[0].points)).max() > 0.02
    ratios = [
        sobolev_distance(tokens, 2.0, density, highest=highest)
        / sampling_error(density, n, 2.0, highest)
        for tokens, density in zip(carried.frames, run.frames, strict=True)
    ]
    print(dim, noise, ratios)
    assert all(0.3 < ratio < 2.0 for ratio in ratios)


def test_tokens_are_carried_by_the_density():
    """On the circle the mass between two tokens is conserved along the flow, exactly."""
    start, field = Density.mode(2, 3, 0.1), ms.SelfAttention(5.0)
    run = ms.flow(start, field, 2.0, frames=3)
    quiet = start.to_points(64)
    carried = push(run, quiet)
    angles = np.asarray(run.frames[-1].to_points(64).angles)
    gap = np.angle(np.exp(1j * (np.asarray(carried.frames[-1].angles) - angles)))
    assert np.abs(gap).max() < 1e-7 and list(carried.times) == list(run.times)


@pytest.mark.parametrize(("beta", "published"), [(5.0, 3), (7.0, 4)])
def test_published_circle_runs(beta, published):
    """USA from the Fourier coefficients of 20 000 iid tokens, 200 seeds.

    Counted at exit, or where the density was last resolved: past contrast one it collapses.
    """
    n, seeds = 20_000, 200
    rate = max_rate(beta, 2, normalized=False)
    horizon = float(exit_time(n, rate))
    field = ms.SelfAttention(beta, normalized=False)
    found, reached = Counter(), []
    for seed in range(seeds):
        start = Density.from_points(ms.uniform(n, 2, seed=seed), 24)
        stepper = Resolution(96, 384, 1e-6, stepper=Adaptive(1e-7, 1e-7))
        run = ms.flow(start, field, horizon, frames=2, stepper=stepper)
        found[peaks(run.frames[-1], beta)] += 1
        reached.append(run.times[-1] / horizon)
    seen = {k: count / seeds for k, count in sorted(found.items())}
    expected = count_distribution(beta, 2, n, normalized=False, samples=4000).counts
    gap = total_variation(seen, expected)
    print(beta, "reached", np.mean(reached), np.min(reached), "of the exit time")
    print("seen", seen, "predicted", expected, "total variation", gap)
    assert max(seen, key=lambda k: seen[k]) == published
    assert gap < 0.12  # 200 seeds alone leave about 0.04
