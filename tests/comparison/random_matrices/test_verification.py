import dataclasses
import json

import numpy as np
import pytest

from metastable.comparison.random_matrices import judge_verification, verify
from metastable.comparison.random_matrices.draws import draw_layer
from metastable.comparison.random_matrices.spec import GaussianStudy
from metastable.comparison.random_matrices.study import answer_verification
from metastable.comparison.random_matrices.verification import Errors, ErrorSeries
from metastable.core.result import plain
from metastable.report.pages.study import write_study
from metastable.report.studies import result_of_study
from metastable.theory.gaussian import logit_variance, sample_error


@pytest.fixture(scope="module")
def found():
    return verify(dim=40, keys=20, samples=1000, repeats=6, calm_dim=8, calm_samples=4000)


def test_scaling_of_the_draw():
    """Σ = GGᵀ/√d has its top eigenvalue near 4√d; logits deviate by √(xᵀAᵀΣAx)."""
    layer = draw_layer(200, 80, seed=1)
    assert layer.measure.eigenvalues[-1] == pytest.approx(4 * np.sqrt(200), rel=0.1)
    quiet = layer.quieter(1.0)
    x = np.asarray(layer.measure.sample(4000, seed=9).points)
    seen = logit_variance(x, np.asarray(layer.measure.cov), quiet.bilinear)
    assert np.mean(seen <= 1) == pytest.approx(0.99, abs=0.005)


def test_affine_errors_follow_their_law(found):
    affine = found.affine
    assert [row.samples for row in affine.rows] == [10, 32, 100, 316, 1000]
    assert affine.slope("mean") == pytest.approx(-0.5, abs=0.08)
    assert affine.slope("cov") == pytest.approx(-0.5, abs=0.08)
    assert affine.covered > 0.85
    last = affine.rows[-1]
    assert last.cov == pytest.approx(last.expected.cov, rel=0.25)


def test_the_error_of_a_slope_is_its_scatter():
    """Oracle: 400 slopes from empirical means of N(0, I) in four dimensions, drawn here."""
    random, counts, repeats = np.random.default_rng(0), (10, 100, 1000), 3
    expected = {n: sample_error(np.ones(4), np.eye(4), n) for n in counts}

    def series():
        rows = []
        for n in counts:
            means = random.standard_normal((repeats, 4)) / np.sqrt(n)
            each = tuple(np.linalg.norm(means, axis=1) / 2)
            rms = float(np.sqrt(np.mean(np.square(each))))
            rows.append(Errors(n, rms, rms, each, each, expected[n]))
        return ErrorSeries("drawn", 4, 4, 1.0, 1.0, tuple(rows))

    drawn = [series() for _ in range(400)]
    scatter = np.std([one.slope("mean") for one in drawn])
    assert drawn[0].slope_error("mean") == pytest.approx(scatter, rel=0.15)


def test_calm_attention_approaches_the_closed_form(found):
    calm = found.calm
    assert calm.loudest < 1.0
    assert calm.slope("velocity") == pytest.approx(-0.5, abs=0.08)
    assert calm.slope("cov") == pytest.approx(-0.5, abs=0.1)
    last = calm.rows[-1]
    assert last.effective == pytest.approx(last.effective_expected, rel=0.1)


def test_attention_as_drawn_does_not(found):
    last = found.loud.rows[-1]
    assert found.loud.deviation > 5
    assert last.effective < 5 < 0.01 * last.samples
    assert last.velocity > 0.5


def test_result_is_json_judged_and_shown(found, tmp_path):
    answer = answer_verification(found)
    data = json.loads(json.dumps(plain(answer.data)))
    assert data["calm"]["samples"][-1] == 4000
    claims = [row.claim for row in judge_verification(found).rows]
    assert any("velocity" in claim for claim in claims)
    assert not any("as printed" in claim for claim in claims)  # another size than the printed one
    result = result_of_study(GaussianStudy(study={"kind": "verify"}), answer)
    page = write_study(dataclasses.replace(result, folder=tmp_path)).read_text()
    assert page.count("<svg") == 3 and "Verdicts" in page
