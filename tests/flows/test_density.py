"""The flow of a density: against brute-force quadrature, linear theory, and its own outcomes."""

from __future__ import annotations

import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from metastable.flows import Adaptive, Resolution, density_velocity
from metastable.flows.solvers.mean_field import mean_field
from metastable.measures import Density
from metastable.measures.spectral import basis_for
from metastable.theory.spectrum import growth_rates, multihead_rates

BUMP = Density.von_mises_fisher([0.6, 0.8], 1.5)


def brute_force(density, beta, normalized, size=256):
    """−∂_θ(f v) on the circle by all pairs of nodes and a derivative by FFT, in NumPy alone."""
    theta = 2 * np.pi * np.arange(size) / size
    k = np.arange(density.degree + 1)
    c = np.asarray(density.coefficients)
    f = np.real(np.exp(1j * np.outer(theta, k)) @ (np.where(k > 0, 2, 1) * c))
    gap = theta[:, None] - theta
    kernel = np.exp(beta * np.cos(gap))
    v = -(kernel * np.sin(gap)) @ f / size
    if normalized:
        v /= kernel @ f / size
    return -1j * k * (np.fft.rfft(f * v) / size)[: len(k)]


@pytest.mark.parametrize("normalized", [True, False])
def test_the_equation_is_the_brute_force_one(normalized):
    density = BUMP.resized(60)
    equation = mean_field(ms.SelfAttention(4.0, normalized=normalized), density.basis)
    found = np.asarray(equation.derivative(density.coefficients))
    expected = brute_force(density, 4.0, normalized)
    assert np.abs(found - expected).max() < 1e-13 * np.abs(expected).max() * 100


@pytest.mark.parametrize("centre", [[0.6, 0.8], [0.0, 0.6, 0.8]])
def test_the_velocity_is_that_of_very_many_tokens(centre):
    """Nodes of a quadrature, weighted by the density, are tokens for the particle field."""
    density = Density.von_mises_fisher(centre, 2.0).resized(36)
    basis: Any = density.basis
    dim = density.dim
    nodes = basis.nodes(None)
    areas = np.asarray(basis.shares).repeat(basis.longitudes) if dim == 3 else np.ones(len(nodes))
    weights = areas * np.asarray(basis.values(density.coefficients))
    tokens = ms.Points(nodes, np.maximum(weights, 0.0))
    at = np.asarray(ms.uniform(20, dim, seed=1).points)
    # All kinds of force at once: the velocity of a sum is the sum of velocities.
    heads = [ms.SelfAttention(1.0), ms.SelfAttention(4.0, value=2.0)]
    field = (
        ms.SelfAttention(3.0, normalized=False, value=-1)
        + ms.SelfAttention(2.0, query=-0.5)
        + ms.Kuramoto(0.7)
        + ms.MultiHead(heads, [0.5, -1.0])
        + ms.Potential(lambda s: jnp.cos(2 * s))
    )
    expected = np.asarray(field.velocity(tokens, at=at))
    found = np.asarray(density_velocity(density, field, at))
    assert np.abs(found - expected).max() < 1e-11 * np.abs(expected).max()


def test_zonal_velocity_is_that_of_the_full_density():
    full = Density.von_mises_fisher([0.0, 0.0, 1.0], 2.0)
    zonal = Density.von_mises_fisher([0.0, 0.0, 1.0], 2.0, zonal=True)
    at, field = ms.uniform(9, 3).points, ms.SelfAttention(3.0) + ms.Noise(5.0)
    gap = density_velocity(full, field, at) - density_velocity(zonal, field, at)
    assert np.abs(gap).max() < 1e-13


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_rates_of_sums_of_heads_and_noise(dim):
    heads = [ms.SelfAttention(2.0), ms.SelfAttention(7.0)]
    field = ms.MultiHead(heads, [1.0, -0.5]) + ms.Noise(9.0)
    equation = mean_field(field, basis_for(dim, 6, dim == 8))
    found = [equation.rates[np.argmax(equation.basis.degrees == k)] for k in range(1, 7)]
    expected = multihead_rates([2.0, 7.0], [1.0, -0.5], dim, 6, kappa=9.0)
    assert np.array(found) == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_linear_growth_mass_and_energy_on_the_circle():
    """Two modes at once, 1e−9 beside 1e−7; λ_ℓ from theory.spectrum."""
    c = np.zeros(5, complex)
    c[0], c[3], c[4] = 1.0, 1e-7, 1e-9j
    run = ms.flow(Density(c, 2), ms.SelfAttention(5.0), 4.0, frames=5)
    grown = np.log(np.abs(run.frames[-1].coefficients[3:5]) / np.abs(c[3:5])) / 4.0
    assert grown == pytest.approx(growth_rates(5.0, 2, 4)[2:], abs=1e-8)
    assert run.outcome.name == "done" and run.clock == "SA"
    energies = [float(ms.energy(frame, 5.0)) for frame in run.frames]
    assert (np.diff(energies) >= -1e-15 * energies[0]).all()
    assert all(abs(float(frame.mass) - 1) < 1e-13 for frame in run.frames)
    assert ms.compare(run).agrees


def test_heat_equation_is_exact():
    start = Density.von_mises_fisher([0.0, 1.0], 3.0)
    run = ms.flow(start, ms.Noise(7.0), 2.0, frames=3)
    k = np.arange(start.degree + 1)
    end = run.frames[-1].resized(start.degree).coefficients
    assert np.abs(end - start.coefficients * np.exp(-(k**2) * 2.0 / 7.0)).max() < 1e-12
    assert run.clock == "none" and "Tsit5" in run.statistics["stepper"]
    rows = {row.claim: row for row in ms.compare(run).rows}
    assert rows["the free energy falls"].verdict == "agree"


def test_resolution_doubles_then_ends_then_hands_over():
    start, field = Density.mode(2, 2, 0.2), ms.SelfAttention(3.0)
    small = Resolution(least=32, most=64)
    run = ms.flow(start, field, 12.0, frames=25, stepper=small)
    assert run.outcome.name == "unresolved" and 0 < run.times[-1] < 12
    assert str(run.outcome).startswith(
        "unresolved: tokens concentrate faster than resolution 64; continue with particles"
    )
    degrees = [frame.degree for frame in run.frames[1:]]
    assert degrees == sorted(degrees) and {32, 64} <= set(degrees)
    power = run.frames[-1].basis.power(run.frames[-1].coefficients)
    assert np.sqrt(power[57:].max() / power[1:].max()) < 1e-9  # one step past the tail at most

    both = ms.flow(start, field, 12.0, frames=25, stepper=Resolution(32, 64, handover=300))
    kinds = [type(frame).__name__ for frame in both.frames]
    assert kinds == ["Density"] * len(run.frames) + ["Points"] * (len(kinds) - len(run.frames))
    assert both.outcome.name == "done" and both.times[-1] == 12 and both.frames[-1].count == 300
    assert both.statistics["handover_time"] == run.times[-1]
    assert (np.diff(both.times) > 0).all()
    # The second cosine moment goes through the hand-over without a jump.
    moments = [abs(ms.observe.modes(frame, 2)[2]) for frame in both.frames]
    assert max(np.abs(np.diff(moments))) < 0.2 and moments[-1] > 0.999
    assert ms.observe.peaks(run.frames[-1], 3.0) == 2


def test_step_limit_and_refusals():
    start, field = Density.mode(2, 3, 0.1), ms.SelfAttention(5.0)
    run = ms.flow(start, field, 5.0, frames=2, stepper=Adaptive(max_steps=2))
    assert run.outcome.name == "step_limit" and run.times[-1] < 5
    refused = [
        (dict(sum=ms.Dense()), r"sum has no meaning in a flow of Density"),
        (dict(stepper=ms.Merging()), r"stepper must be Adaptive.*Density; got Merging"),
        (dict(stepper=ms.Geodesic()), r"stepper must be Adaptive"),
        (dict(stepper=Resolution(1, 2)), r"degree 3, above the 2.*raise most"),
    ]
    for arguments, message in refused:
        with pytest.raises(ValueError, match=message):
            ms.flow(start, field, 1.0, **arguments)
    with pytest.raises(ValueError, match=r"increasing stage times"):
        ms.flow(start, field + ms.Noise(9.0), 1.0, stepper=Adaptive())
    for other in (ms.SelfAttention(2.0, causal=True), ms.SelfAttention(2.0, value=np.diag([1, 2])),
                  ms.Krause(lambda r: r), ms.Kuramoto(1.0, frequencies=[1.0])):  # fmt: skip
        with pytest.raises(ValueError, match=r"a density moves under.*to_points"):
            ms.flow(start, other, 1.0)
    with pytest.raises(ValueError, match=r"beta must be below about 700.*Potential"):
        ms.flow(start, ms.SelfAttention(800.0, normalized=False), 1.0)
    with pytest.raises(ValueError, match=r"stepper must be .* for Points; got Resolution"):
        ms.flow(ms.polygon(3), field, 1.0, stepper=Resolution(handover=10))  # pyright: ignore
    with pytest.raises(ValueError, match=r"tail must be > 0"):
        Resolution(tail=0.0)


def test_a_density_from_toml(tmp_path, capsys, monkeypatch):
    from metastable import kinds
    from metastable.comparison.run import trajectory_of
    from metastable.flows.spec import Experiment

    spec = tmp_path / "density.toml"
    spec.write_text(
        '[measure]\nkind = "density_mode"\ndegree = 2\namplitude = 0.05\n[field]\nbeta = 2.0\n'
        "[flow]\nhorizon = 1.0\nframes = 3\n"
        '[flow.stepper]\nkind = "resolution"\nleast = 32\nmost = 64\n'
    )
    experiment = Experiment.load(spec, {})
    result = kinds.run(experiment, tmp_path / "out", page=False)
    run, summary = trajectory_of(result), result.to_dict()
    assert json.loads(json.dumps(summary))["outcome"] == "done"
    table = np.array(summary["amplitudes"])
    assert table.shape == (3, 12) and table[0, 1] == pytest.approx(0.05)
    grown = np.log(table[-1, 1] / table[0, 1])
    assert grown == pytest.approx(growth_rates(2.0, 2, 2)[1], rel=0.02)
    assert (
        summary["tokens"] is None and summary["energy_monotone"] and summary["clusters"][-1][1] == 2
    )
    back = trajectory_of(kinds.open(tmp_path / "out"))
    assert np.array_equal(back.frames[-1].coefficients, run.frames[-1].coefficients)
    for change, message in [
        ({"flow.stepper": {"kind": "geodesic"}}, r'stepper\.kind must be "adaptive"'),
        ({"field.causal": True}, r"a density moves under"),
        ({"measure.degree": 0}, r"measure\.degree"),
        ({"flow.sum": "dense"}, r"flow\.sum and flow\.check are for tokens"),
    ]:
        with pytest.raises(ValueError, match=message):
            kinds.run(Experiment.load(spec, change))
    stepper = {"flow.stepper.kind": "resolution", "flow.stepper.handover": 10}
    with pytest.raises(ValueError, match=r'"resolution" is for densities'):
        kinds.run(Experiment.from_tree({}, {**stepper, "measure.tokens": 5}))
