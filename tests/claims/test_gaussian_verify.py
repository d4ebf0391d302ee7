"""The Gaussian layer against samples at the published size, and three decades of attention."""

import json

import pytest
from typer.testing import CliRunner

from metastable.cli.gaussian import app
from metastable.comparison.random_matrices import judge_verification, verify

pytestmark = pytest.mark.claim


@pytest.fixture(scope="module")
def found():
    return verify(dim=300, keys=128, samples=20_000, repeats=8, calm_samples=32_000)


def test_errors_are_those_printed_within_a_factor_of_one_and_a_half(found):
    """Printed for d = 300, d_k = 128, N = 20 000: 2.49e−2 and 5.32e−2, of one unstated draw."""
    last = found.affine.rows[-1]
    for mean, cov in zip(last.mean_each, last.cov_each, strict=True):
        assert 1 / 1.5 < mean / 2.49e-2 < 1.5
        assert 1 / 1.5 < cov / 5.32e-2 < 1.5


def test_attention_converges_with_slope_minus_one_half_over_three_decades(found):
    calm = found.calm
    assert calm.rows[-1].samples / calm.rows[0].samples == 1000
    assert calm.loudest <= 1  # xᵀAᵀΣAx ≤ 1 for 99 % of the tokens
    for name in ("mean", "cov", "velocity"):
        assert calm.slope(name) == pytest.approx(-0.5, abs=0.05), name


def test_effective_tokens_collapse_in_the_published_scaling(found):
    loud = found.loud
    assert loud.deviation == pytest.approx(16, rel=0.15)
    last = loud.rows[-1]
    assert last.samples == 20_000 and last.effective < 3
    assert last.effective == pytest.approx(last.effective_expected, rel=0.5)
    assert last.velocity > 0.5  # no convergence in sight
    calm = found.calm.rows[-1]
    assert calm.effective > 0.5 * calm.samples


def test_every_verdict_agrees(found):
    assert judge_verification(found).agrees


def test_command(tmp_path):
    words = ["--dim", "20", "--keys", "10", "--samples", "400", "--calm-samples", "4000"]
    done = CliRunner().invoke(app, ["verify", *words, "--json", "--out", str(tmp_path / "new")])
    told = json.loads(done.stdout)
    assert told["kind"] == "gaussian" and set(told["data"]) == {"affine", "calm", "loud"}
    assert (tmp_path / "new" / "report.html").is_file()
