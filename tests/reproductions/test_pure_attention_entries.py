"""Entries about pure attention and its relatives: errors planted in the solver change verdicts."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from reproductions.geshkovski2023._pure_attention import limit_corners
from reproductions.geshkovski2023.keller_segel import collapse
from reproductions.geshkovski2023.limit_set import enumerate_limits
from reproductions.geshkovski2023.nested_hulls import nested_hulls
from reproductions.geshkovski2023.two_time_scales import two_time_scales
from reproductions.valente2024.small_beta_slope import small_beta_slope
from tests.reproductions.planting import backwards, hotter, hurried, verdicts

ENTRIES = {
    "β off by 30 %, small β": (
        lambda: small_beta_slope(tokens=6, dim=3, betas=[0.01, 0.1], horizon=2.0),
        ms.SelfAttention,
        hotter,
    ),
    "wrong sign, hulls": (
        lambda: nested_hulls(tokens=8, draws=2, horizon=1.0),
        ms.Rescaled,
        backwards,
    ),
    "clock off by 30 %, argmax": (
        lambda: two_time_scales(tokens=8, draws=2, horizon=10.6667),
        ms.Rescaled,
        hurried,
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_planted_error(name, monkeypatch):
    entry, kind, wrong = ENTRIES[name]
    assert verdicts(entry, wrong, monkeypatch, kind) == (True, False)


def test_limit_set_of_a_square():
    # Four corners, four middles of sides and the centre: feet of perpendiculars from the origin.
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    found = enumerate_limits(square, np.eye(2))
    assert len(found) == 9
    # Far from the origin only the nearest point and the corners behind it qualify.
    shifted = enumerate_limits(square + np.array([3.0, 0.0]), np.eye(2))
    assert {tuple(np.round(x, 9)) for x in shifted} == {(4.0, 0.0), (4.0, 1.0), (4.0, -1.0)}


def test_corners_leave_out_what_lies_inside():
    corners = [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    tokens = ms.Points([*corners, [1.0, 1.0], [0.5, 0.5], [2.0, 1e-6]], on_sphere=False)
    assert len(limit_corners(tokens)) == 3


def test_two_particles_collapse_at_a_quarter_of_the_squared_distance():
    # The distance D of two log-attracted particles of mass 1/2 obeys (D²)′ = −2.
    times, spread, (released, place) = collapse(np.array([-0.5, 1.0]))
    assert times[-1] == pytest.approx(1.5**2 / 2, rel=2e-3)
    assert place == pytest.approx(0.25) and spread[-1] == 0
    assert released == pytest.approx(1.5**2 / 4, rel=2e-3)  # the variance of the start
