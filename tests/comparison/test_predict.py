"""Predictions for a field: values from THEORY's published figures and from mpmath."""

import json
import subprocess
import sys

import mpmath
import pytest

import metastable as ms

KEYS = (
    "dim beta clock rates dominant_mode max_rate exit_time expected_clusters cluster_distribution "
    "critical_noise transition single_cluster_theorem plateau_lifetime"
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


def test_absent_arguments_leave_nulls():
    prediction = ms.predict(ms.SelfAttention(5.0), 2).to_dict()
    assert prediction["exit_time"] is None and prediction["cluster_distribution"] is None
    general = ms.predict(ms.SelfAttention(5.0, query=[[1.0, 2.0], [0.0, 1.0]]), 2, tokens=2)
    assert general.rates is None and general.critical_noise is None
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
