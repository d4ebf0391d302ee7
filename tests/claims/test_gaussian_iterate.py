"""The published iterations of a Gaussian layer: each described behaviour, and its fault."""

from dataclasses import replace

import numpy as np
import pytest

from metastable.comparison.random_matrices import SETTINGS, iterate, judge_iterations
from metastable.comparison.random_matrices.draws import draw_layer
from metastable.flows import Layers, flow
from metastable.theory.gaussian import blow_up_time

pytestmark = pytest.mark.claim


def top(track, layer):
    return np.log10(track.eigenvalues[track.layers.index(layer)][-1])


def test_explosion_and_more_keys():
    """Standard matrices explode within seven layers; d = 30, d_k = 1280 does so some thirty
    orders of magnitude lower after five."""
    first = iterate("explosion")
    for track in first.tracks:
        assert top(track, 5) > 60
        assert track.outcome.name == "blow_up" and track.layers[-1] in (5, 6)
    second = [iterate("more-keys", seed=seed) for seed in range(4)]
    gaps = [top(first.exact, 5) - top(one.exact, 5) for one in second]
    assert 15 < np.median(gaps) < 60
    assert judge_iterations([first, *second]).agrees


def test_a_small_step_is_contained_and_25_layers_go_negative():
    contained = [iterate("small-step", seed=seed) for seed in range(10)]
    for one in contained:
        for track in one.tracks:
            assert track.eigenvalues[-1][-1] < 1.2 * track.eigenvalues[0][-1]
    longer = [iterate("negative", seed=seed) for seed in range(10)]
    assert sum(one.published.negative_at is not None for one in longer) >= 9
    for one in longer:
        assert all(values[0] > 0 for values in one.exact.eigenvalues)
    assert judge_iterations([*contained, *longer]).agrees


def test_negative_eigenvalues_grow_like_the_positive_ones():
    """Past −1e5, as described; with the printed step this takes some 60 layers, not 25."""
    found = iterate("negative-later")
    published = found.published
    assert published.outcome.name == "blow_up"
    smallest = np.array([values[0] for values in published.eigenvalues])
    assert smallest.min() < -1e5 and published.eigenvalues[-1][-1] > 1e5
    assert all(values[0] >= 0 for values in found.exact.eigenvalues)


def test_divergence_is_the_pole_of_the_flow():
    """For V = I exact layers of step ε end near t*/ε, t* the blow-up time of the closed form."""
    layer = draw_layer(30, 1280, seed=0)._replace(output=np.eye(30))
    pole = blow_up_time(np.asarray(layer.measure.cov), layer.bilinear)
    gaps = []
    for step in (pole / 50, pole / 500, pole / 5000):
        stepper = Layers(step)
        run = flow(layer.measure, layer.field, 10_000 * step, stepper=stepper, frames=2)
        assert run.outcome.name == "blow_up"
        gaps.append(run.times[-1] / pole - 1)
    assert gaps[0] > gaps[1] > gaps[2] > 0 and gaps[2] < 0.005


def test_many_tiny_steps_keep_the_law_of_the_start():
    """The last setting at an eighth of its size and eight times its step: what looks like a limit
    is the Marchenko–Pastur law of the start, which so small a total time hardly moves."""
    setting = replace(
        SETTINGS["marchenko-pastur"], dim=128, keys=160, step=8e-5, tolerance=0.0, samples=2000
    )
    found = iterate(setting, tokens=True)
    for track in (found.exact, found.sampled):
        assert track is not None and track.outcome.name == "done"
        assert track.distance is not None and track.distance < 0.03
    last = [track.eigenvalues[-1][-1] for track in found.tracks]
    assert np.allclose(last, found.exact.eigenvalues[0][-1], rtol=0.1)
    assert all(values[0] > 0 for values in found.exact.eigenvalues)
