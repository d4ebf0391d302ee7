"""Points: normalisation, geometry, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms

PAIR = [[1.0, 0.0], [0.0, 1.0]]


def test_weights_become_a_probability_and_default_to_equal():
    assert np.allclose(ms.Points(PAIR, weights=[1, 3]).weights, [0.25, 0.75], rtol=1e-15)
    assert np.allclose(ms.Points(PAIR).weights, 0.5)
    assert np.allclose(ms.Points(PAIR, weights=[0, 2]).weights, [0, 1])


def test_rows_within_a_millionth_of_the_sphere_are_retracted_to_rounding():
    points = ms.Points([[1.0 + 9e-7, 0.0], [0.0, 1.0 - 9e-7]])
    assert np.abs(np.linalg.norm(points.points, axis=1) - 1).max() <= 2.3e-16


def test_positions_are_the_times_or_the_order():
    assert ms.Points(PAIR).positions.tolist() == [0.0, 1.0]
    assert ms.Points(PAIR, times=[5, 2]).positions.tolist() == [5.0, 2.0]


def test_angles_are_polar_and_exist_on_the_circle_only():
    assert np.allclose(ms.Points([*PAIR, [-1.0, 0.0]]).angles, [0, np.pi / 2, np.pi])
    with pytest.raises(ValueError, match=r"angles.*dimension 2.*3"):
        _ = ms.uniform(4, 3).angles


def test_geometry_can_be_left_and_entered_again():
    free = ms.Points([[3.0, 4.0]], weights=[2], times=[7], on_sphere=False)
    held = free.directions()
    assert held.on_sphere and np.allclose(held.points, [[0.6, 0.8]])
    assert held.times is not None and held.times.tolist() == [7.0]
    back = held.euclidean()
    assert not back.on_sphere and np.array_equal(back.points, held.points)
    assert np.allclose(held.at(held.points[:, ::-1]).points, [[0.8, 0.6]], rtol=1e-15)


def test_one_token_in_the_line_is_allowed_off_the_sphere():
    assert ms.Points([[2.0], [-1.0]], on_sphere=False).dim == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(points=[[2.0, 0.0]]), r"points.*norm 1.*row 0.*norm 2.*from_array"),
        (dict(points=[1.0, 0.0]), r"points.*2 non-empty axes.*\(2,\)"),
        (dict(points=np.zeros((0, 3))), r"points.*non-empty.*\(0, 3\)"),
        (dict(points=[[1.0, 0.0], [np.nan, 1.0]]), r"points must be finite.*row 1"),
        (dict(points=[[1.0]]), r"points.*at least 2 axes.*\(1, 1\)"),
        (dict(points=PAIR, weights=[1.0]), r"weights.*one entry per token \(2\).*\(1,\)"),
        (dict(points=PAIR, weights=[-1.0, 2.0]), r"weights must be >= 0.*-1.*sum 1"),
        (dict(points=PAIR, weights=[0.0, 0.0]), r"weights.*positive sum.*sum 0"),
        (dict(points=PAIR, weights=[np.inf, 1.0]), r"weights must be finite.*row 0"),
        (dict(points=PAIR, times=[1.0, 2.0, 3.0]), r"times.*one entry per token \(2\).*\(3,\)"),
        (dict(points=PAIR, times=[1.0, np.nan]), r"times must be finite.*row 1"),
    ],
)
def test_bad_points_are_refused_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        ms.Points(**arguments)


@pytest.mark.parametrize("points", [[["a", "b"]], [[1j, 0]], [[1.0, 0.0], [1.0]]])
def test_input_that_is_not_a_real_array_is_refused_by_name(points):
    with pytest.raises(ValueError, match="points"):
        ms.Points(points)
