"""Interrupted trainings of control go on with the same bits; experiments leave what they should."""

import pytest

from metastable.learn.control.clusters import Demand, train_clusters
from metastable.learn.control.steering import Plant, steer_tokens
from metastable.learn.control.steering_experiment import learn_steering, random_tokens
from metastable.learn.spec import Steering
from tests.learn.interruption import goes_on_with_the_same_bits

pytestmark = pytest.mark.claim


def test_clusters_on_demand(tmp_path, monkeypatch):
    demand = Demand(2, tokens=8, horizon=2.0, free="value", steps=3, starts=2)
    run = lambda path: train_clusters(demand, steps=4, checkpoint=path, progress=False)
    goes_on_with_the_same_bits(run, tmp_path, monkeypatch)


def test_steering(tmp_path, monkeypatch):
    plant = Plant(2, pieces=1, neurons=2, substeps=2, attention=False)
    x, y = (random_tokens(2, 2, seed, True) for seed in (1, 2))
    run = lambda path: steer_tokens(x, y, plant, steps=5, checkpoint=path, progress=False).training
    goes_on_with_the_same_bits(run, tmp_path, monkeypatch)


def test_the_experiment_leaves_facts_and_curves(tmp_path):
    small = {"tokens": (2,), "dim": 2, "neurons": 2, "steps": 6, "attention": False}
    spec = Steering(horizons=(), prompts=False, cloud=0, **small)
    answer = learn_steering(spec, tmp_path)
    assert set(answer.figures) == {"error", "perturbed"} and answer.outcome.name == "done"
    assert answer.facts["switches"] == [1] and list(tmp_path.glob("*.npz"))
