"""The short form of the claim that hours of use leave the serving process as it was."""

from tests.explorer.soak import MOST, soak


def test_slider_stops_and_runs_do_not_grow_the_serving_process():
    assert soak(stops=3, minutes=0.001) < MOST
