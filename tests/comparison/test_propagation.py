"""The joint test over layers: its error rate, and planted errors that it must notice."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from metastable.comparison.propagation import compare_propagation, joint_test
from metastable.core.verdict import AGREE, DISAGREE
from metastable.models.own.random_stack import random_stack
from metastable.theory.propagation import RandomBlock


@pytest.mark.parametrize("kind", ["walk", "independent"])
def test_false_alarms_come_as_often_as_stated(kind):
    """300 tests of 10 random curves of 48 layers, strongly dependent or not, at a true mean."""
    rng = np.random.default_rng(5)
    p = []
    for k in range(300):
        curves = rng.standard_normal((10, 48))
        curves = np.cumsum(curves, 1) if kind == "walk" else curves
        p.append(joint_test(3.0 + curves, np.full(48, 3.0), draws=100, seed=k).p)
    share = np.mean(np.array(p) < 0.05)
    assert 0.01 < share < 0.09  # 0.05 ± 3 deviations of 0.0126


def test_equal_layers_are_one_test():
    """Layers that repeat one another: Student's law (SciPy), up to the shrinking."""
    curves = np.repeat(0.4 + np.random.default_rng(8).standard_normal((50, 1)), 20, axis=1)
    curves += 1e-6 * np.random.default_rng(9).standard_normal(curves.shape)
    student = ttest_1samp(curves[:, 0], 0.0)
    found = joint_test(curves, np.zeros(20))
    assert found.statistic == pytest.approx(student.statistic, rel=1e-4)
    assert 0.8 * student.pvalue < found.p < 3 * student.pvalue


def test_a_shift_of_one_layer_is_seen():
    curves = np.cumsum(np.random.default_rng(6).standard_normal((20, 30)), 1)
    expected = np.zeros(30)
    right = joint_test(curves, expected)
    expected[12] += 6 * np.sqrt(13 / 20)  # six standard errors
    wrong = joint_test(curves, expected)
    assert right.p > 0.01 and wrong.p < 0.01 and wrong.layer == 12
    assert wrong.statistic > wrong.critical > right.statistic


def test_networks_agree_and_a_planted_value_does_not():
    """σ_v off by 5 %: 160 networks of width 96, 32 tokens, 24 layers."""
    block = RandomBlock(tokens=32, placement="post", attention=0.35, mlp=0.0)
    rho = random_stack(block, 96, 24, correlation=0.2, seeds=160, seed=11)["correlation"]
    rows = compare_propagation(block, 96, rho, correlation=0.2)
    assert [row.verdict for row in rows] == [AGREE, AGREE]
    planted = dataclasses.replace(block, value=1.05)
    rows = compare_propagation(planted, 96, rho, correlation=0.2)
    assert rows[0].verdict == DISAGREE and "largest |t|" in rows[0].claim


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="seeds ≥ 4"):
        joint_test(np.zeros((3, 5)), np.zeros(5))
