"""Every observable answers for tokens, densities and Gaussians, or refuses in one sentence."""

import inspect
import warnings

import numpy as np
import pytest
from scipy.integrate import dblquad

import metastable as ms
from metastable import observe
from metastable.measures import Density, Gaussian

CENTRE = np.array([0.6, 0.0, 0.8])


def siblings(seed):
    tokens = ms.uniform(tokens=8, dim=2, seed=seed)
    return {
        "Points": tokens,
        "Density": Density.from_points(tokens, degree=6),
        "Gaussian": Gaussian([0.1 * seed, 0.2], np.eye(2) * 0.3 * (1 + seed)),
    }


FIRST, SECOND = siblings(0), siblings(1)
FILL = {
    "highest": 3, "beta": 2.0, "s": -1.0, "functional": np.array([1.0, 0.0]),
    "field": ms.SelfAttention(2.0), "horizon": 0.5,
}  # fmt: skip
ANSWERED = "energy similarity effective_rank clusters wasserstein singular_values residual".split()
# What has no meaning for a sort of measure, and is refused with our sentence.
REFUSED = {
    "Density": set("attention attention_rows bures_wasserstein equilibrium gram_rank hemisphere "
                   "hull hyperplanes "
                   "kernel_modes leaders log_potential lyapunov_exponents pairwise_similarity "
                   "sinkhorn sliced_wasserstein".split()),
    "Points": {"bures_wasserstein", "entropy", "free_energy", "peaks"},
}  # fmt: skip
REFUSED["Gaussian"] = (REFUSED["Density"] - {"bures_wasserstein"}) | set(
    "amplitudes entropy free_energy modes peaks power sobolev_distance".split()
)


def observables():
    for name in observe.__all__:
        function = getattr(observe, name)
        if inspect.isfunction(function):
            needed = [
                p.name for p in inspect.signature(function).parameters.values()
                if p.default is p.empty
            ]  # fmt: skip
            if needed[0] in ("measure", "density"):
                yield name, function, needed[1:]


def ask_all(sort, measure, other):
    """Every observable of a measure: answered, or refused with our sentence."""
    for name, function, needed in observables():
        more = [other if key == "other" else FILL[key] for key in needed]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name in REFUSED[sort]:
                with pytest.raises(ValueError, match=rf"{name} is defined for .*; got {sort}: "):
                    function(measure, *more)
            elif name == "free_energy":
                with pytest.raises(ValueError, match="field must be"):
                    function(measure, *more)
            else:
                function(measure, *more)


# stepper → the measures it moves, and a field for it; the others are refused.
STEPPERS = {
    "default": (None, "Points Density Gaussian"),
    "Adaptive": (ms.Adaptive(), "Points Density Gaussian"),
    "Fixed": (ms.Fixed(0.01), "Points Density Gaussian"),
    "Layers": (ms.Layers(0.25), "Points Gaussian"),
    "Geodesic": (ms.Geodesic(), "Points"),
    "Merging": (ms.Merging(), "Points"),
    "Hardmax": (ms.Hardmax(), "Points"),
    "Resolution": (ms.Resolution(), "Density"),
}


@pytest.mark.parametrize("sort", FIRST)
@pytest.mark.parametrize("named", STEPPERS)
def test_observables_measures_and_steppers(sort, named):
    """The whole product: a run, then everything that can be asked of its end and of itself."""
    stepper, moved = STEPPERS[named]
    field = ms.SelfAttention(2.0, value=-1 if sort == "Gaussian" else None)
    if named == "Geodesic":
        field = field + ms.Noise(50.0)
    horizon = np.inf if named == "Hardmax" else 0.5
    call = lambda: ms.flow(FIRST[sort], field, horizon, stepper=stepper, frames=3)
    if sort not in moved.split():
        with pytest.raises(ValueError, match=rf"stepper must be .* for {sort}; got"):
            call()
        return
    run = call()
    assert run.outcome.name == "done" and type(run.frames[-1]).__name__ == sort
    if named not in ("Merging", "Hardmax"):  # two tokens may have become one
        ask_all(sort, run.frames[-1], SECOND[sort])
    else:
        ms.clusters(run.frames[-1]), ms.similarity(run.frames[-1]), ms.energy(run.frames[-1], 2.0)
    verdicts = ms.compare(run)
    assert verdicts.agrees and verdicts.rows
    assert "@" in ms.cite(run) and ms.report.figures_of(run)
    assert ms.predict(field, FIRST[sort]).dim == 2


def test_what_must_answer_is_refused_by_none():
    for refused in REFUSED.values():
        assert not refused & set(ANSWERED)


def test_a_gaussian_is_predicted_by_its_pole():
    # Σ(t) = (Σ_0⁻¹ − 2βt)⁻¹ under V = I: infinite at t = 1/(2β λ_max(Σ_0)) (arXiv:2501.18322)
    start = Gaussian([0.0, 1.0], np.diag([0.5, 2.0]))
    found = ms.predict(ms.SelfAttention(0.7), start)
    assert found.blow_up_time == pytest.approx(1 / (2 * 0.7 * 2.0), rel=1e-12)
    assert ms.predict(ms.SelfAttention(0.7, value=3.0), start).blow_up_time == pytest.approx(
        found.blow_up_time / 3, rel=1e-12
    )
    none = ms.predict(ms.SelfAttention(0.7, value=-1), start)
    assert none.blow_up_time is None and "bounded" in none.reasons["blow_up_time"]


@pytest.mark.parametrize("beta", [-0.7, 0.4, 1.5])
def test_energy_of_a_gaussian_is_its_double_integral(beta):
    mean, variance = 0.3, 0.6
    power = lambda x, y: beta * x * y - ((x - mean) ** 2 + (y - mean) ** 2) / (2 * variance)
    inside = lambda x, y: np.exp(power(x, y)) / (2 * np.pi * variance)
    pairs, _ = dblquad(inside, -30, 30, -30, 30, epsabs=1e-11)
    found = float(ms.energy(Gaussian([mean], [[variance]]), beta))
    assert found == pytest.approx(pairs / (2 * beta), rel=1e-8)


def test_energy_of_a_gaussian_is_infinite_where_the_integral_is():
    assert float(ms.energy(Gaussian([0.0, 0.0], 0.5), 2.0)) == np.inf
    assert float(ms.energy(Gaussian([3.0, 4.0], 0.5), 0.0)) == pytest.approx(12.5)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_a_density_and_its_quiet_tokens_look_alike(dim):
    """Oracle: sums over 4000 quantiles of the density."""
    centre = np.eye(dim)[0]
    density = Density.von_mises_fisher(centre, 3.0)
    tokens = density.to_points(4000)
    one, other = ms.similarity(density, delta=0.3, bins=8), ms.similarity(tokens, 0.3, 8)
    assert one.mean == pytest.approx(other.mean, abs=2e-3)
    assert one.near == pytest.approx(other.near, abs=6e-3)
    np.testing.assert_allclose(one.histogram, other.histogram, atol=6e-3)
    assert ms.effective_rank(density) == pytest.approx(ms.effective_rank(tokens), rel=5e-3)
    assert observe.residual(density) == pytest.approx(observe.residual(tokens), abs=2e-3)
    assert ms.clusters(density).count == 1


def test_maxima_of_a_density_are_its_clusters():
    density = Density.mode(2, 3, 0.3)
    found = ms.clusters(density)
    assert found.count == 3 and found.masses == pytest.approx(np.full(3, 1 / 3), abs=2e-3)
    assert ms.clusters(Density.uniform(2)).count == 0
    assert ms.clusters(Gaussian([1.0, 2.0], 0.5)).radii == pytest.approx([1.0])


def test_mean_direction_of_a_gaussian_against_draws():
    """Oracle: the mean over 400 000 draws, whose error is 0.001."""
    measure = Gaussian([0.5, -0.2, 1.0], np.diag([0.2, 1.0, 0.5]))
    x = np.asarray(measure.sample(400_000, seed=1).points)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert ms.similarity(measure).mean == pytest.approx(np.sum(x.mean(axis=0) ** 2), abs=4e-3)


def test_wasserstein_between_siblings():
    tokens = ms.uniform(tokens=64, dim=2, seed=0)
    density = Density.from_points(tokens, degree=6)
    quiet = density.to_points(20_000)
    found = observe.wasserstein(density, tokens)
    assert found == pytest.approx(observe.wasserstein(quiet, tokens), rel=1e-3)
    assert observe.wasserstein(Gaussian([0.0, 3.0], 1.0), Gaussian([4.0, 0.0], 1.0)) == 5.0
