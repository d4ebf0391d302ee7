import numpy as np

from metastable.report.figures.run import choose_frames, partition, token_tracks
from tests.report import made


def test_tokens_are_followed_until_they_merge():
    assert token_tracks(made.circle()).shape == (13, 40, 2)
    assert token_tracks(made.merging()) is None


def test_frames_are_dense_where_tokens_move():
    run = made.circle(np.linspace(0, 40, 201))
    chosen = choose_frames(run, 7)
    assert chosen[0] == 0 and chosen[-1] == 200 and len(chosen) == 7
    # Tokens have gone 1 − e^{−3} = 95 % of their way by t = 3, where even spacing has no frame.
    assert np.sum((chosen > 0) & (run.times[chosen] <= 3)) >= 3
    assert choose_frames(made.merging(), 6).tolist() == [0, 1, 2]


def test_tokens_at_rest_are_shown_evenly():
    run = made.trajectory([made.on_circle([0.0, 1.0])] * 11, np.arange(11.0))
    assert choose_frames(run, 6).tolist() == [0, 2, 4, 6, 8, 10]


def test_tokens_have_the_colour_of_their_last_cluster():
    groups, time = partition(made.circle())
    assert time == 12.0
    # Labels by mass: 20, 12, 8 of 40 tokens, planted in the order 12, 20, 8.
    assert groups.labels.tolist() == [1] * 12 + [0] * 20 + [2] * 8


def test_one_last_cluster_gives_way_to_the_longest_plateau():
    three, two, one = [0.0, 2.0, 4.0], [0.0, 3.0, 3.0], [1.0, 1.0, 1.0]
    times = np.geomspace(1, 1e4, 9)
    places = [three] * 2 + [two] * 5 + [one] * 2
    run = made.trajectory([made.on_circle(p) for p in places], times)
    groups, time = partition(run)
    assert groups.count == 2 and time == times[6]


def test_nothing_but_one_cluster():
    run = made.trajectory([made.on_circle([1.0, 1.0])] * 3, [0.0, 1.0, 2.0])
    groups, time = partition(run)
    assert groups.count == 1 and time == 2.0
