import json
from dataclasses import replace

import numpy as np
import pytest

from metastable.comparison.random_matrices import SETTINGS, Setting, iterate, judge_iterations
from metastable.comparison.random_matrices.draws import draw_layer
from metastable.comparison.random_matrices.study import answer_iterations
from metastable.core.result import plain
from metastable.measures import Gaussian
from tests.gaussians import layered


def test_tokens_follow_the_exact_layer_of_their_own_covariance():
    """After the first draw there is no statistical noise: both maps are the same, to rounding."""
    setting = Setting("small", "", 5, 4, 4, 0.2, "samples", samples=300)
    sampled = iterate(setting, seed=2).sampled
    layer = draw_layer(5, 4, seed=2)
    start = Gaussian.of(layer.measure.sample(300, seed=3))
    run = layered(start, layer.field, 4, 0.2)
    for values, frame in zip(sampled.eigenvalues, run.frames, strict=True):
        assert np.allclose(values, frame.eigenvalues, rtol=1e-10)


def test_the_mean_of_the_start_changes_nothing_in_the_covariance():
    """The published loop keeps it, which is wrong for the mean and harmless for the spectrum."""
    found = iterate(Setting("small", "", 5, 4, 3, 0.2, "samples", samples=300))
    for wrong, right in zip(found.published.eigenvalues, found.sampled.eigenvalues, strict=True):
        assert np.allclose(wrong, right, rtol=1e-9)


@pytest.fixture(scope="module")
def negative():
    return iterate("negative", seed=1)


def test_published_loop_is_the_truncated_map(negative):
    """The first layers agree with the labelled option of `Layers`, until that stops."""
    setting = replace(SETTINGS["negative"], step=1e-4)
    found, layer = iterate(setting, seed=1), draw_layer(30, 1280, seed=1)
    run = layered(layer.measure, layer.field, 25, 1e-4, truncated=True)
    assert run.outcome.name == "done" and found.published.negative_at is None
    last = found.published.eigenvalues[-1]
    assert np.allclose(last, run.frames[-1].eigenvalues, rtol=1e-10, atol=1e-12)
    stopped = layered(layer.measure, layer.field, 25, 0.01, truncated=True)
    assert f"at layer {negative.published.negative_at}" in stopped.outcome.message


def test_truncation_goes_negative_and_the_exact_layer_does_not(negative):
    assert negative.published.eigenvalues[-1][0] < 0
    assert all(values[0] > 0 for values in negative.exact.eigenvalues)
    assert judge_iterations([negative]).agrees
    facts = json.loads(json.dumps(plain(answer_iterations([negative]).facts)))
    published, exact = facts["negative"]
    assert published["smallest"] < 0 < exact["smallest"]


def test_divergence_gives_its_layer():
    found = iterate(replace(SETTINGS["more-keys"], layers=12, samples=500))
    for track in found.tracks:
        assert track.outcome.name == "blow_up"
        assert f"layer {track.layers[-1] + 1}" in track.outcome.message
        assert track.law is None


def test_convergence_stops_the_published_loop():
    found = iterate(replace(SETTINGS["small-step"], step=1e-7, tolerance=1e-3))
    assert found.published.outcome.name == "converged" and found.published.layers == (0, 1)
    assert found.exact.outcome.name == "done"
    assert found.exact.distance < 0.15  # 30 eigenvalues of a Marchenko–Pastur matrix


def test_refusals():
    with pytest.raises(ValueError, match="setting must be one of explosion"):
        iterate("nothing")
    with pytest.raises(ValueError, match="by must be"):
        iterate(replace(SETTINGS["negative"], by="magic"))
