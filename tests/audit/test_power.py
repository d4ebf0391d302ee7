"""Power before the fact, against simulated permutation tests and Fisher's exact test."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from metastable.audit.power import (
    Power,
    area_power,
    detectable_area,
    detectable_rate,
    fewest_hits,
)
from metastable.audit.statistics import permutation_p


@pytest.mark.parametrize(("area", "size", "level"), [(0.65, 40, 0.05), (0.8, 20, 0.01)])
def test_power_is_that_of_simulated_permutation_tests(area, size, level):
    """300 audits of normal evidence: within three standard errors of the simulation."""
    random = np.random.default_rng([size, round(100 * area)])
    shift = np.sqrt(2) * stats.norm.ppf(area)
    found = [
        permutation_p(random.normal(shift, 1, size), random.normal(size=size), draws=999, seed=k)
        <= level
        for k in range(300)
    ]
    expected = area_power(area, size, size, level)
    assert abs(np.mean(found) - expected) < 3 * np.sqrt(expected * (1 - expected) / 300) + 0.01


def test_without_an_effect_power_is_the_level():
    assert area_power(0.5, 30, 20, 0.01) == pytest.approx(0.01, rel=1e-6)


def test_what_can_be_detected_has_the_power():
    area = detectable_area(60, 60, 0.001)
    assert area_power(area, 60, 60, 0.001) == pytest.approx(0.8, abs=1e-6)
    assert detectable_area(2, 2, 1e-9) == 1.0


@pytest.mark.parametrize(("protected", "control", "level"), [(16, 16, 0.0025), (40, 20, 0.01)])
def test_hits_that_are_needed_are_fishers(protected, control, level):
    hits = fewest_hits(protected, control, level)
    p = [
        stats.fisher_exact([[k, protected - k], [0, control]], alternative="greater").pvalue
        for k in (hits, hits - 1)
    ]
    assert p[0] <= level < p[1]
    rate = detectable_rate(protected, control, level)
    assert stats.binom.sf(hits - 1, protected, rate) == pytest.approx(0.8, abs=1e-9)


def test_how_many_documents_are_enough():
    """The fewest that reach 80 %: one less does not."""
    power = Power(100, 100, 0.01, 5, 4)
    count = power.documents_for(0.65)
    level = 0.01 / (2 * 5)
    assert (
        area_power(0.65, count, count, level) >= 0.8 > area_power(0.65, count - 1, count - 1, level)
    )
    areas = [row["auc"] for row in power.table()]
    assert areas == sorted(areas, reverse=True)
    with pytest.raises(ValueError, match="area must lie"):
        power.documents_for(0.5)


def test_the_table_of_the_docs_is_computed():
    """Level 0.01, five likelihoods and two prompts, as docs/audit.md has it."""
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text("utf-8")
    for row in Power(100, 100, 0.01, 5, 2).table():
        cells = [f"{100 * row[name]:.0f} %" for name in ("auc", "share_by_heart", "rate")]
        assert f"| {row['documents']} | {' | '.join(cells)} |" in page
