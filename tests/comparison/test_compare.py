"""Verdicts: they agree on honest runs, and flip when β or the clock is planted wrong."""

import dataclasses

import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jnp


def verdicts(run, **changes):
    rows = ms.compare(dataclasses.replace(run, **changes)).rows
    return {row.claim.split(",")[0]: row.verdict for row in rows}


def flipped(run, **changes):
    before, after = verdicts(run), verdicts(run, **changes)
    return {c for c in before if before[c] == "agree" and after.get(c) == "disagree"}


@pytest.fixture(scope="module")
def circle():
    """The circle run of the demo, with fewer tokens."""
    return ms.flow(ms.uniform(500, 2, seed=1), ms.SelfAttention(9.0), 30.0, frames=121)


def test_the_demo_run_has_many_rows_and_no_disagreement(circle):
    comparison = ms.compare(circle)
    assert len(comparison.rows) >= 8
    assert comparison.count("agree") >= 8 and comparison.agrees
    for row in comparison.rows:
        assert row.claim and row.source
        assert row.verdict != "not applicable" or row.reason


def test_a_wrong_beta_flips_at_least_two_rows(circle):
    assert len(flipped(circle, field=ms.SelfAttention(9.0 * 1.3))) >= 2
    assert len(flipped(circle, field=ms.SelfAttention(9.0 / 1.3))) >= 2


def test_a_wrong_clock_flips_at_least_two_rows(circle):
    usa = ms.SelfAttention(9.0, normalized=False)
    assert len(flipped(circle, field=usa, clock="USA")) >= 2
    assert len(flipped(circle, times=2 * circle.times)) >= 2


def test_a_run_that_leaves_the_sphere_or_loses_energy_is_caught(circle):
    frames = list(circle.frames)
    frames[-1] = frames[-1].at((1 + 1e-9) * frames[-1].points)
    assert "frames lie on the sphere" in flipped(circle, frames=tuple(frames))
    assert "the energy never falls" in flipped(circle, frames=circle.frames[::-1])


def test_first_clusters_row_can_disagree(circle):
    """Nine planted clusters are far outside the predicted law at β = 9 (3 to 5)."""
    nonagon = ms.polygon(9)
    frames = [circle.frames[0]] + [nonagon] * (len(circle.frames) - 1)
    assert verdicts(circle, frames=tuple(frames))["number of first clusters"] == "disagree"


def test_orthogonal_tokens_follow_the_equiangular_law():
    run = ms.flow(ms.orthogonal(4, 6), ms.SelfAttention(2.0), 14.0, frames=57)
    name = "orthogonal tokens stay equiangular"
    assert verdicts(run)[name] == "agree"
    assert verdicts(run, field=ms.SelfAttention(2.1))[name] == "disagree"
    assert verdicts(run)["all tokens end in one cluster"] == "agree"
    name = "rate at which the last cluster contracts"
    assert verdicts(run)[name] == "agree"
    assert name in flipped(run, times=1.1 * run.times)


def test_two_clusters_merge_when_the_quadrature_says():
    pair = ms.Points([[1.0, 0.0], [0.0, 1.0]], weights=[0.3, 0.7])
    run = ms.flow(pair, ms.SelfAttention(3.0), 12.0, frames=241)
    name = "time for two clusters to reach ⟨x_1"
    assert verdicts(run)[name] == "agree"
    assert verdicts(run, field=ms.SelfAttention(3.2))[name] == "disagree"


def test_causal_tokens_follow_the_first():
    run = ms.flow(ms.uniform(6, 3, seed=2), ms.SelfAttention(1.0, causal=True), 60.0, frames=31)
    assert verdicts(run)["all tokens converge to x_1(0)"] == "agree"


def test_repulsion_stops_at_the_sharp_configuration():
    run = ms.flow(ms.uniform(4, 3, seed=0), ms.SelfAttention(2.0, value=-1), 60.0)
    rows = {row.claim: row for row in ms.compare(run).rows}
    row = rows["energy bounded below by the simplex"]
    assert row.verdict == "agree" and row.reason == "reached"
    assert verdicts(run)["the energy never rises"] == "agree"


def test_rescaled_hulls_are_nested():
    start = ms.gaussian_points(12, 2, seed=0)
    run = ms.flow(start, ms.Rescaled(ms.SelfAttention(1.0)), 4.0, frames=21)
    name = "convex hulls of rescaled tokens are nested"
    assert verdicts(run)[name] == "agree"
    assert verdicts(run, frames=run.frames[::-1])[name] == "disagree"


@pytest.mark.parametrize("kappa, seen", [(4.0, "uniform"), (100.0, "clusters")])
def test_noise_threshold(kappa, seen):
    """κ_# = βI_0(β)/I_1(β) = 9.547 at β = 9 on the circle (SA)."""
    field = ms.SelfAttention(9.0) + ms.Noise(kappa)
    run = ms.flow(ms.uniform(300, 2, seed=0), field, 25.0, frames=26, stepper=ms.Geodesic(0.02))
    row = next(r for r in ms.compare(run).rows if r.claim.startswith("uniform is stable"))
    assert row.verdict == "agree" and row.observed == seen


@pytest.mark.parametrize(("tokens", "beta", "kappa"), [(64, 20.0, 200.0), (80, 5.0, 44.8)])
def test_noise_threshold_with_few_tokens(tokens, beta, kappa):
    """κ far above κ_# (20.5 and 5.6): clusters, though 10/√n is more than any amplitude."""
    field = ms.SelfAttention(beta) + ms.Noise(kappa)
    run = ms.flow(ms.uniform(tokens, 2, seed=1), field, 25.0, frames=26, stepper=ms.Geodesic(0.05))
    row = next(r for r in ms.compare(run).rows if r.claim.startswith("uniform is stable"))
    assert row.verdict == "agree" and row.observed == "clusters"
    # Uniform tokens drawn anew for each frame have no clusters.
    frames = tuple(ms.uniform(tokens, 2, seed=seed) for seed in range(len(run.times)))
    planted = dataclasses.replace(run, frames=(run.frames[0], *frames[1:]))
    row = next(r for r in ms.compare(planted).rows if r.claim.startswith("uniform is stable"))
    assert row.verdict == "disagree" and row.observed == "uniform"


def test_noise_threshold_is_not_asked_where_tokens_cannot_tell():
    field = ms.SelfAttention(5.0) + ms.Noise(6.0)  # κ_# = 5.6: 80·0.07 < 50
    run = ms.flow(ms.uniform(80, 2, seed=1), field, 5.0, frames=6, stepper=ms.Geodesic(0.05))
    row = next(r for r in ms.compare(run).rows if r.claim.startswith("uniform is stable"))
    assert row.verdict == "not applicable" and "too few" in row.reason


def test_first_clusters_are_not_asked_of_fewer_tokens_than_modes():
    run = ms.flow(ms.uniform(64, 2, seed=0), ms.SelfAttention(5000.0), 6.0, frames=41)
    row = next(r for r in ms.compare(run).rows if r.claim == "number of first clusters")
    assert row.verdict == "not applicable"
    assert row.reason == "64 tokens are too few for ℓ* = 100 modes: the law needs 800"


def test_tokens_of_unequal_mass_are_called_by_their_number():
    """Masses k/Σk, k = 1 … 24: 1/Σw² = 3·24·25/(2·49) = 18.4 equal tokens."""
    start = ms.Points(ms.uniform(24, 2, seed=0).points, np.arange(1.0, 25.0))
    run = ms.flow(start, ms.SelfAttention(5000.0), 6.0, frames=41)
    row = next(r for r in ms.compare(run).rows if r.claim == "number of first clusters")
    assert row.reason.startswith("24 tokens of unequal mass, as 18.4 equal ones, are too few")


@pytest.fixture(scope="module")
def gaussian():
    start = ms.Gaussian([1.0, 0.5], [[1.0, 0.2], [0.2, 0.5]])
    return ms.flow(start, ms.SelfAttention(0.5), 2.0, frames=21)


def test_a_gaussian_run_agrees_and_is_cited(gaussian):
    comparison = ms.compare(gaussian)
    assert comparison.count("agree") == 7 and comparison.agrees
    assert "castin2025unified" in ms.cite(gaussian)
    from metastable.report.figures import figures_of

    assert list(figures_of(gaussian)) == ["moments"]


def test_a_gaussian_run_with_a_wrong_label_disagrees(gaussian):
    assert len(flipped(gaussian, field=ms.SelfAttention(0.505))) == 6
    assert len(flipped(gaussian, times=1.01 * gaussian.times)) >= 3
    turned = ms.SelfAttention(0.5, value=[[1.0, 0.1], [0.0, 1.0]])
    assert len(flipped(gaussian, field=turned)) >= 3
    other = ms.compare(dataclasses.replace(gaussian, field=ms.L2Attention(0.5)))
    assert other.count("disagree") == 1 and other.count("not applicable") == 4


def test_a_run_without_a_field_says_what_to_do(circle):
    with pytest.raises(ValueError, match="must know its field"):
        ms.compare(dataclasses.replace(circle, field=None))


def test_own_energy_of_a_symmetric_form():
    form = np.array([[2.0, 0.5], [0.5, 1.0]])
    field = ms.SelfAttention(1.0, query=form, value=form)
    run = ms.flow(ms.uniform(20, 2, seed=0), field, 5.0, frames=21)
    assert verdicts(run)["the energy never falls"] == "agree"
    general = ms.SelfAttention(1.0, value=jnp.asarray([[1.0, 0.3], [0.0, 1.0]]))
    assert "the energy never falls" not in verdicts(run, field=general)


def test_citations_are_complete_and_belong_to_the_claims(circle):
    from metastable.comparison.citations import bibliography

    text = ms.cite(circle)
    assert text.startswith("@article{geshkovski2023mathematical,")
    assert "bruno2024emergence" in text and "cohn2007universally" not in text
    named = {key for row in ms.compare(circle).rows for key in _keys(row.source)}
    assert named <= set(bibliography())


def _keys(source):
    import re

    return re.findall(r"[a-z]+\d{4}[a-z]+", source)
