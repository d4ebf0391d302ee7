"""Predictions for a field: values from THEORY's published figures and from mpmath."""

import json
import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest

import metastable as ms
from metastable.comparison.prediction import LABELS

KEYS = (
    "dim beta clock rates dominant_mode max_rate exit_time expected_clusters cluster_distribution "
    "critical_noise transition single_cluster_theorem plateau_lifetime reasons log_exit_time "
    "log_critical_noise log_plateau_lifetime rates_near_dominant cluster_deviation"
)


@pytest.mark.parametrize(
    "dim, normalized, expected",
    [(2, False, 18.5961), (2, True, 0.682678), (3, False, 9.97809), (3, True, 0.672349)],
)
def test_third_mode_at_beta_5(dim, normalized, expected):
    """Figures derived in the conventions: λ_3 at β = 5 on the circle and on S²."""
    prediction = ms.predict(ms.SelfAttention(5.0, normalized=normalized), dim)
    assert prediction.rates[2] == pytest.approx(expected, rel=1e-5)
    assert prediction.dominant_mode == 3


def test_repulsion_flips_the_rates_and_leaves_nothing_dominant():
    attract = ms.predict(ms.SelfAttention(5.0), 2)
    repel = ms.predict(ms.SelfAttention(5.0, value=-1), 2)
    assert repel.rates == [-r for r in attract.rates]
    assert repel.dominant_mode is None and repel.exit_time is None
    assert repel.single_cluster_theorem is None


def test_noise_subtracts_l_over_kappa():
    free = ms.predict(ms.SelfAttention(5.0), 3)
    noisy = ms.predict(ms.SelfAttention(5.0) + ms.Noise(40.0), 3)
    for degree, (a, b) in enumerate(zip(free.rates, noisy.rates, strict=True), start=1):
        assert b == pytest.approx(a - degree * (degree + 1) / 40, abs=1e-14)
    assert noisy.noise == pytest.approx(40.0)


def test_heads_add_and_a_potential_has_its_own_rates():
    heads = ms.MultiHead([ms.SelfAttention(2.0), ms.SelfAttention(5.0)], outputs=[0.5, 2.0])
    single = [ms.predict(ms.SelfAttention(b), 2).rates for b in (2.0, 5.0)]
    combined = ms.predict(heads, 2).rates
    for k in range(6):
        assert combined[k] == pytest.approx(0.5 * single[0][k] + 2 * single[1][k], rel=1e-12)
    linear = ms.predict(ms.Potential(lambda s: s), 2).rates  # Kuramoto: λ_1 = 1/2, others 0
    assert linear[0] == pytest.approx(0.5, rel=1e-12)
    assert max(map(abs, linear[1:8])) < 1e-12  # coefficients are good to rounding, times L


def test_values_beyond_doubles_keep_their_logarithm():
    prediction = ms.predict(ms.SelfAttention(1e4, normalized=False), 2, tokens=1000, samples=2)
    with mpmath.workdps(30):
        k = prediction.dominant_mode
        log_rate = mpmath.log(k**2 * mpmath.besseli(k, 10**4) / 10**4)
    assert prediction.max_rate is None
    assert prediction.log_max_rate == pytest.approx(float(log_rate), rel=1e-13)
    assert k == 141  # √(2β)


def numbers_in(value):
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        return [x for item in value for x in numbers_in(item)]
    return [value] if isinstance(value, int | float) else []


def test_any_numbers_give_finite_answers_or_a_reason():
    """Log-uniform β, d, n and κ over the whole ranges."""
    random = np.random.default_rng(11)
    for trial in range(60):
        beta = float(10 ** random.uniform(-300, 300)) if trial % 3 else 10 ** random.uniform(0, 12)
        dim = int(2 + 10 ** random.uniform(-1, 6)) if trial % 2 else 2 + trial % 4 // 2
        tokens = [None, int(10 ** random.uniform(0, 18))][min(trial % 5, 1)]
        field = ms.SelfAttention(beta, normalized=bool(trial % 7 % 2))
        if trial % 4 == 1:
            field = field + ms.Noise(10 ** random.uniform(-300, 300))
        prediction = ms.predict(field, min(dim, 10**6), tokens, samples=5)
        answer = prediction.to_dict()
        json.dumps(answer, allow_nan=False)
        assert all(math.isfinite(x) for x in numbers_in(list(answer.values())))
        assert len(prediction.rates) <= 4096
        missing = {key for key in LABELS if answer[key] is None}
        assert missing == set(prediction.reasons) and all(prediction.reasons.values())
        assert set(prediction.to_table()) >= set(LABELS.values())


def test_the_largest_rate_is_right_beyond_the_list():
    """β = 1e9 on the circle: ℓ* = 44721 and λ_max → 2/e, far beyond the first 4096 degrees."""
    prediction = ms.predict(ms.SelfAttention(1e9), 2, tokens=10)
    assert len(prediction.rates) == 4096 and prediction.dominant_mode == 44721
    with mpmath.workdps(40):
        rate = lambda k: k * k * mpmath.besseli(k, 10**9) / mpmath.besseli(0, 10**9) / 10**9
        near = {k: float(rate(k)) for k in (22360, 44720, 44721, 44722, 89442)}
    assert prediction.rates_near_dominant == pytest.approx(near, rel=1e-11)
    assert prediction.max_rate == pytest.approx(near[44721], rel=1e-11)
    assert prediction.max_rate > max(prediction.rates)
    assert prediction.exit_time == pytest.approx(math.log(10) / 2 / near[44721], rel=1e-10)


def test_underflow_is_a_logarithm():
    prediction = ms.predict(ms.SelfAttention(800.0, normalized=False), 2, tokens=1000)
    with mpmath.workdps(30):  # κ_# = β/I_1(β), λ_40 = 40²I_40(β)/β
        critical = mpmath.log(800 / mpmath.besseli(1, 800))
        fastest = mpmath.log(40**2 * mpmath.besseli(40, 800) / 800)
        exit = mpmath.log(mpmath.log(1000) / 2) - fastest
    assert prediction.critical_noise is prediction.exit_time is prediction.plateau_lifetime is None
    assert prediction.log_critical_noise == pytest.approx(float(critical), rel=1e-13)
    assert prediction.log_exit_time == pytest.approx(float(exit), rel=1e-13)
    assert -800 < prediction.log_plateau_lifetime < -780
    assert prediction.to_table()["critical noise κ_#"] == "e^-789.054"
    assert "log_critical_noise" in prediction.reasons["critical_noise"]


@pytest.mark.parametrize(
    ("beta", "dim", "tokens"), [(5.0, 2, 2), (40.0, 2, 5), (5000.0, 2, 64), (1000.0, 3, 10)]
)
def test_no_law_of_clusters_for_too_few_tokens(beta, dim, tokens):
    prediction = ms.predict(ms.SelfAttention(beta), dim, tokens)
    assert prediction.cluster_distribution is None and prediction.expected_clusters is None
    assert f"{tokens} tokens are too few" in prediction.reasons["cluster_distribution"]
    assert "too few" in prediction.to_table()["first clusters"]


def test_never_more_clusters_than_tokens():
    for dim, beta in ((2, 0.5), (2, 5.0), (2, 40.0), (2, 300.0), (3, 8.0), (3, 30.0)):
        tokens = 8 * ms.predict(ms.SelfAttention(beta), dim).dominant_mode ** (dim - 1)
        law = ms.predict(ms.SelfAttention(beta), dim, tokens, samples=50).cluster_distribution
        assert max(law) <= tokens


@pytest.mark.parametrize(
    ("field", "dim", "tokens", "message"),
    [
        (ms.SelfAttention(5.0), 2**64, None, "dim must be an integer from 2 to 10.6"),
        (ms.SelfAttention(5.0), 10**400, None, "dim must be an integer from 2 to 10.6"),
        (ms.SelfAttention(5.0), 2, 10**400, "tokens must be an integer from 1 to 10.18"),
        (ms.SelfAttention(1e308), 2, None, "beta must be at most 1e.300"),
        (ms.SelfAttention(1e200, query=1e200), 2, None, "beta must be at most 1e.300"),
        (ms.SelfAttention(2.0) + ms.Noise(1e-305), 3, None, "kappa must be at least 1e-300"),
    ],
)
def test_numbers_out_of_range_are_refused_in_one_line(field, dim, tokens, message):
    with pytest.raises(ValueError, match=message) as caught:
        ms.predict(field, dim, tokens)
    assert "\n" not in str(caught.value)


def test_multiples_of_the_identity_need_no_matrices():
    # A d × d matrix would have 8 TB here.
    repelled = ms.predict(ms.SelfAttention(5.0, value=-1), 10**6, tokens=100)
    assert repelled.single_cluster_theorem is None and repelled.dominant_mode is None
    assert "stable" in repelled.reasons["exit_time"]


def test_absent_arguments_leave_nulls():
    prediction = ms.predict(ms.SelfAttention(5.0), 2).to_dict()
    assert prediction["exit_time"] is None and prediction["cluster_distribution"] is None
    general = ms.predict(ms.SelfAttention(5.0, query=[[1.0, 2.0], [0.0, 1.0]]), 2, tokens=2)
    assert general.rates is None and general.critical_noise is None
    assert "isotropic" in general.reasons["rates"]
    assert general.single_cluster_theorem is not None  # d ≥ n, any Q and K


def test_json_on_the_command_line():
    command = "predict --dim 2 --beta 5 --tokens 1000 --unnormalized --json".split()
    done = subprocess.run(
        [sys.executable, "-m", "metastable.cli", *command], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(KEYS.split()) <= set(answer)
    assert answer["clock"] == "USA" and answer["dominant_mode"] == 3
    assert answer["transition"] == "discontinuous"  # β_* = 2.44692 on the circle
    assert sum(answer["cluster_distribution"].values()) == pytest.approx(1.0)
    assert answer["critical_noise"] == pytest.approx(0.2055, abs=5e-5)  # arXiv:2606.05140


@pytest.mark.parametrize("arguments", ["--dim 1 --beta 5", "--dim 2 --beta -5", "--dim 2"])
def test_bad_arguments_are_one_line(arguments):
    command = [sys.executable, "-m", "metastable.cli", "predict", *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr
