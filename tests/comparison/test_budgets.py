"""Each physics row agrees on an honest run and flips when another field takes its place."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from metastable.comparison import compare
from metastable.comparison.linear import linear_growth

RNG = np.random.default_rng(3)
TURN = np.array([[1.0, 0.6, 0.0], [-0.6, 1.0, 0.2], [0.1, 0.0, 0.8]])
CAP = ms.von_mises_fisher(24, np.eye(3)[0], 8.0, seed=2)
PLANE = ms.Points(RNG.normal(size=(20, 2)), on_sphere=False)
GAUSS = ms.Gaussian([1.0, -0.5], [[1.0, 0.2], [0.2, 0.6]])
WAVE = ms.Density.mode(2, 2, 0.01)
CHAIN = ms.PositionalAttention(1.0, slope=1 / 24)
SA, USA = ms.SelfAttention(2.0), ms.SelfAttention(2.0, normalized=False)

# What is tested: the row, the start, the stated field, another one in its place, the horizon.
ROWS = {
    "energy gained": (ms.uniform(40, 3, seed=1), ms.SelfAttention(2.0, value=TURN), SA, 6.0),
    "net torque": (ms.uniform(40, 3, seed=1), SA, ms.SelfAttention(2.0, value=TURN), 6.0),
    "Rényi centres": (ms.uniform(40, 2, seed=1), ms.SelfAttention(20.0, causal=True), SA, 20.0),
    "the first token of the chain": (CAP, CHAIN, ms.PositionalAttention(1.0, causal=False), 6.0),
    "angle of the second token": (CAP, CHAIN, ms.PositionalAttention(1.0, slope=0.3), 6.0),
    "the cap that holds": (CAP, CHAIN, ms.SelfAttention(1.0, value=-1.0), 6.0),
    "the mean by the stationary law": (
        CAP,
        ms.SelfAttention(1.0, position=ms.Alibi(0.1)),
        ms.SelfAttention(1.0, value=2.0 * np.eye(3) + 0.5 * (TURN - np.eye(3))),
        40.0,
    ),
    "spread of rescaled tokens": (
        PLANE,
        ms.Rescaled(ms.SelfAttention(0.5, value=np.diag([1.0, 0.5]))),
        ms.Rescaled(ms.SelfAttention(0.5)),
        2.0,
    ),
    "mean along V's leading": (
        PLANE,
        ms.Rescaled(ms.SelfAttention(0.5, value=np.diag([1.0, 0.5]))),
        ms.Rescaled(ms.SelfAttention(0.5)),
        2.0,
    ),
    "the diameter of opinions": (
        PLANE,
        ms.Krause(lambda s: jnp.exp(-s / 2)),
        ms.SelfAttention(0.2),
        2.0,
    ),
    "log-volume": (GAUSS, ms.SelfAttention(0.4, value=TURN[:2, :2]), ms.SelfAttention(0.5), 0.6),
    "trace of": (GAUSS, ms.SelfAttention(0.4, value=TURN[:2, :2]), ms.SelfAttention(0.5), 0.6),
    "‖m‖²": (GAUSS, ms.SelfAttention(0.4, value=TURN[:2, :2]), ms.SelfAttention(0.4), 0.6),
    "mᵀΣ⁻¹m": (GAUSS, ms.SelfAttention(0.4, value=TURN[:2, :2]), ms.SelfAttention(0.4), 0.6),
    "entropy gained": (WAVE, SA, USA, 1.0),
    "contrast": (WAVE, SA, USA, 1.0),
    "second harmonic": (WAVE, SA, USA, 1.0),
}


def _row(run, begins):
    found = [row for row in compare(run).rows if row.claim.startswith(begins)]
    assert len(found) == 1, [row.claim for row in compare(run).rows]
    return found[0]


@pytest.mark.parametrize("claim", ROWS)
def test_a_row_agrees_with_its_field_and_not_with_another(claim):
    start, stated, other, horizon = ROWS[claim]
    assert _row(ms.flow(start, stated, horizon), claim).verdict == "agree"
    wrong = dataclasses.replace(ms.flow(start, other, horizon), field=stated)
    assert _row(wrong, claim).verdict == "disagree"


@pytest.mark.parametrize("together", ["mean", "sum"])
def test_a_chain_of_several_heads_has_the_rows_of_a_chain(together):
    second = ms.PositionalAttention(3.0, width=4.0)
    whole = lambda one: (
        one + second if together == "sum" else ms.fields.MultiHead([one, second], [0.5, 0.5])
    )
    stated, other = whole(CHAIN), whole(ms.PositionalAttention(1.0, slope=0.3))
    honest = ms.flow(CAP, stated, 6.0)
    assert _row(honest, "the first token of the chain").verdict == "agree"
    assert _row(honest, "angle of the second token").verdict == "agree"
    wrong = dataclasses.replace(ms.flow(CAP, other, 6.0), field=stated)
    assert _row(wrong, "angle of the second token").verdict == "disagree"


def test_events_of_hardmax_are_those_of_its_clock():
    start = ms.Points(ms.uniform(12, 3, seed=4).points, RNG.uniform(0.5, 2, 12))
    run = ms.flow(start, SA, math.inf, stepper=ms.Hardmax())
    page = compare(run)
    assert page.agrees and page.count("agree") == 5  # four of events, and the sphere
    wrong = compare(dataclasses.replace(run, field=USA))
    assert {row.claim[:7] for row in wrong.rows if row.verdict == "disagree"} == {
        "it meet",
        "clock c",
    }


def test_a_long_wait_before_a_merger_is_that_of_two_bodies():
    """Two clusters alone: the quadrature of theory.pairs, checked there against 40 digits."""
    x = np.array([[1.0, 0.0], [0.99995, 0.0099998], [0.0, 1.0]])
    start = ms.Points(x / np.linalg.norm(x, axis=1, keepdims=True), [0.25, 0.25, 0.5])
    run = ms.flow(start, ms.SelfAttention(12.0), math.inf, stepper=ms.Merging())
    row = _row(run, "longest wait")
    assert row.verdict == "agree" and abs(row.observed - 1) < 1e-3
    wrong = dataclasses.replace(run, field=ms.SelfAttention(12.5))
    assert _row(wrong, "longest wait").verdict == "disagree"


def test_the_last_two_clusters_have_no_others_near_them():
    """Two clusters nearly opposite, β = 5: their wait is that of theory.pairs, whatever β."""
    angles = np.array([0.0, 0.01, 3.0])
    start = ms.Points(np.stack([np.cos(angles), np.sin(angles)], axis=1), [0.25, 0.25, 0.5])
    run = ms.flow(start, ms.SelfAttention(5.0), math.inf, stepper=ms.Merging())
    row = _row(run, "longest wait")
    assert row.verdict == "agree" and abs(row.observed - 1) < 1e-3
    wrong = dataclasses.replace(run, field=ms.SelfAttention(5.1))
    assert _row(wrong, "longest wait").verdict == "disagree"


def test_layers_multiply_a_harmonic_by_its_own_factor():
    """One layer on a quiet density of tokens: 1 + ελ/(1 + εa), a = I_1(β)/I_0(β) on the circle."""
    from scipy.special import iv

    beta, step, mode, n = 4.0, 0.5, 2, 4000
    angles = 2 * np.pi * (np.arange(n) + 0.5) / n
    angles = angles + 1e-4 * np.sin(mode * angles)  # density 1 − 2e−4 cos 2θ
    tokens = ms.Points(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    run = ms.flow(tokens, ms.SelfAttention(beta), step, stepper=ms.Layers(step))
    harmonic = [abs(np.mean(np.exp(1j * mode * np.arctan2(*np.asarray(f.points).T[::-1]))))
                for f in run.frames]  # fmt: skip
    rate = float(linear_growth(ms.SelfAttention(beta), 2, math.inf).rates[mode - 1])
    factor = 1 + step * rate / (1 + step * iv(1, beta) / iv(0, beta))
    assert harmonic[-1] / harmonic[0] == pytest.approx(factor, rel=1e-6)


def test_layers_of_any_step_climb_the_energy():
    run = ms.flow(ms.uniform(30, 4, seed=1), ms.SelfAttention(6.0), 30.0, stepper=ms.Layers(3.0))
    assert _row(run, "the energy never falls").verdict == "agree"
    repelled = ms.flow(
        ms.uniform(30, 4, seed=1), ms.SelfAttention(6.0, value=-1.0), 3.0, stepper=ms.Layers(0.1)
    )
    wrong = dataclasses.replace(repelled, field=ms.SelfAttention(6.0))
    assert _row(wrong, "the energy never falls").verdict == "disagree"


def test_rates_of_forces_that_add_are_summed():
    """Kuramoto moves degree 1 alone, at K(d−1)/d; a potential W(s) = s does the same."""
    plain = linear_growth(SA, 3, math.inf).rates[:6]
    both = linear_growth(SA + ms.Kuramoto(1.5), 3, math.inf).rates[:6]
    np.testing.assert_allclose(both - plain, [1.0, 0, 0, 0, 0, 0], atol=1e-12)
    same = linear_growth(SA + ms.Potential(lambda s: 1.5 * s), 3, math.inf).rates[:6]
    np.testing.assert_allclose(same, both, atol=1e-10)
    distance = linear_growth(ms.L2Attention(2.0), 3, math.inf).rates[:6]
    np.testing.assert_allclose(distance, plain, rtol=1e-12)
    prediction = ms.predict(SA + ms.Kuramoto(1.5), 3, tokens=100)
    assert prediction.expected_clusters is None and prediction.dominant_mode == 1
    degrees = np.arange(1, 7)
    assert prediction.critical_noise == pytest.approx(np.min(degrees * (degrees + 1) / both))


def test_a_prediction_says_where_a_cluster_goes():
    turning = ms.SelfAttention(1.0, value=np.array([[1.0, 2.0], [-2.0, 1.0]]))
    assert "once in 3.142 units" in str(ms.predict(turning, 2).limit_set)  # 2π/2
    assert "λ_1 = 3" in str(
        ms.predict(ms.SelfAttention(1.0, value=np.diag([1.0, 3.0])), 2).limit_set
    )
    assert "stays" in ms.predict(SA, 2).reasons["limit_set"]


def test_noise_keeps_a_cluster_as_wide_as_theory_says():
    start = ms.von_mises_fisher(60, np.eye(3)[0], 200.0, seed=5)
    field = ms.SelfAttention(1.0) + ms.Noise(400.0)
    run = ms.flow(start, field, 30.0, seed=3)
    assert _row(run, "width of the cluster").verdict == "agree"
    wrong = dataclasses.replace(run, field=ms.SelfAttention(1.0, value=2.0) + ms.Noise(400.0))
    assert _row(wrong, "width of the cluster").verdict == "disagree"


def test_harmonics_under_noise_have_the_power_of_their_process():
    start = ms.uniform(400, 2, seed=6)
    field = ms.SelfAttention(1.0) + ms.Noise(1.0)
    run = ms.flow(start, field, 30.0, seed=3)
    assert _row(run, "power of the slowest").verdict == "agree"
    wrong = dataclasses.replace(run, field=ms.SelfAttention(1.0, value=-6.0) + ms.Noise(1.0))
    assert _row(wrong, "power of the slowest").verdict == "disagree"
