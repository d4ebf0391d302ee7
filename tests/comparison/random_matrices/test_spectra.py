import json

import numpy as np
import pytest

from metastable.comparison.random_matrices import ENSEMBLES, judge_spectra, spectra
from metastable.comparison.random_matrices.study import answer_spectra
from metastable.core.result import plain


@pytest.fixture(scope="module")
def found():
    return spectra(sizes=(40, 400))


def test_every_ensemble_is_drawn_and_approaches_its_law(found):
    assert [one.name for one in found] == list(ENSEMBLES)
    for one in found:
        assert one.distances[1] < 0.5 * one.distances[0], one.name
        assert one.distances[1] < 0.015, one.name
    assert judge_spectra(found).agrees


def test_only_uncentred_entries_have_an_outlier(found):
    for one in found:
        if one.name.startswith("uniform"):
            assert one.outliers.size == 1
            assert one.outliers[0] == pytest.approx(one.outlier_expected, rel=0.01)
        else:
            assert one.outliers.size == 0


def test_scaling_leaves_the_distance_and_moves_the_edge(found):
    by = {one.name: one for one in found}
    scaled, raw = by["wigner"], by["wigner-unscaled"]
    assert np.allclose(raw.values, 20 * scaled.values)
    assert raw.law.edges[1] == pytest.approx(40) and scaled.law.edges[1] == 2
    assert raw.distances == pytest.approx(scaled.distances)
    mp = by["marchenko-pastur"]
    assert mp.law.edges == (0.0, pytest.approx(4 * 20 / 3))  # 4σ²√n with σ² = 1/3


def test_choice_and_json():
    (one,) = spectra(["fuss-catalan"], sizes=[50], seed=3)
    facts = json.loads(json.dumps(plain(answer_spectra([one]).facts)))
    (row,) = facts["Kolmogorov distances from the limit law, by size"]
    assert row["law"] == "FussCatalan" and row["edge"] == 6.75 and one.law.edges[0] == 0.0
    with pytest.raises(ValueError, match="names must be among wigner"):
        spectra(["nothing"])
    with pytest.raises(ValueError, match="sizes"):
        spectra(sizes=[1])
