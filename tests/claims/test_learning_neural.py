"""Neural ODEs that learn: two spirals, digits that collapse, and networks of many layers."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from metastable import kinds
from metastable.core.numerics import jnp
from metastable.learn.neural.datasets import draw_spirals
from metastable.learn.neural.ode import Continuous, classification_loss, initial_classifier
from metastable.learn.spec import FlowNet
from tests.learn.differences import check_gradient

pytestmark = pytest.mark.claim

EXPERIMENTS = Path(__file__).parents[2] / "experiments" / "learn"


def learn(name):
    return kinds.run(kinds.load_spec(EXPERIMENTS / f"{name}.toml"))


def test_two_spirals_are_told_apart_in_two_minutes():
    """Computing time of this process, so that a busy machine does not decide."""
    began = time.process_time()
    lesson = learn("two_spirals")
    assert time.process_time() - began < 120
    assert lesson.facts["held-out accuracy"] >= 0.99
    assert (
        lesson.facts["NC1 fell by"] >= 100
        and lesson.facts["NC4, answers that are not the nearest mean"] == 0
    )


def test_digits_collapse_to_a_simplex():
    """Papyan, Han and Donoho, arXiv:2008.08186: all four properties, on scikit-learn's digits."""
    facts = learn("digits").facts
    assert facts["held-out accuracy"] >= 0.97
    assert facts["NC1 fell by"] >= 100
    assert facts["NC2, distance from a simplex"] <= 0.05
    assert facts["NC3, distance of classifier and means"] <= 0.05
    assert facts["NC4, answers that are not the nearest mean"] == 0


def test_many_layers_come_near_the_flow():
    """Euler's method has order 1; drawn weights average out like 1/√L, with a variance that the
    linear noise equation predicts."""
    lesson = learn("many_layers")
    facts = lesson.facts
    assert facts["slope of the ResNet's error"] == pytest.approx(-1, abs=0.1)
    assert facts["slope of the resampled error"] == pytest.approx(-0.5, abs=0.1)
    ratios = np.array(list(facts["resampled error over predicted"].values()))
    assert np.abs(ratios[-3:] - 1).max() < 0.15
    assert facts["held-out errors of the ResNets"]["2048"] <= 0.01


@pytest.mark.parametrize("loss", ["cross_entropy", "squares"])
@pytest.mark.parametrize("adjoint", ["checkpoints", "backsolve"])
def test_gradients_through_the_flow_against_finite_differences(loss, adjoint):
    network = FlowNet(widths=(3,), neurons=4, pieces=2)
    objective = classification_loss(network, loss, 0.01, Continuous(1e-9, adjoint))
    data = draw_spirals(12, classes=3, seed=1)
    batch = (jnp.asarray(data.points), jnp.asarray(data.labels))
    check_gradient(objective, initial_classifier(network, 3, 1), batch)
