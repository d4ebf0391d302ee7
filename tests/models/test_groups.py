"""Clusters of tokens followed through depth, on states whose clusters are known."""

import sys

import numpy as np
import pytest

import metastable as ms
from metastable.core.figure import COLORS, Map, from_tree
from metastable.models import group_tokens
from metastable.models.cutting import CLEAR
from metastable.models.depthwise import depthwise
from metastable.models.groups import Merge, follow_labels
from metastable.observe.clusters import clusters
from metastable.report.drawing import draw
from metastable.report.figures.words import MOST_ROWS, plot_groups
from metastable.report.styles import CATEGORIES

NEAR = 0.1  # radians; cos 0.1 = 0.995


def circle(*angles, words=None, **rest):
    """States of tokens on the circle, given by their angles."""
    angles = np.array(angles, float)
    states = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return ms.Trajectory.from_states(states, words=words, **rest)


def axes(*states, words=None):
    """States of tokens each on an axis, given by its number; those of one axis are one cluster."""
    return ms.Trajectory.from_states(np.eye(12)[np.array(states)], words=words)


MEETING = circle([0, 1, 3], [0, NEAR, 3], [0, NEAR, 2 * NEAR], words=["a", "b", "c"])


def same_partition(one, two):
    pairs = set(zip(one, two, strict=True))
    return len(pairs) == len(set(one)) == len(set(two))


def test_three_points_on_a_circle_merge():
    """A chain of two steps of 0.1 joins all three, though the ends are 0.2 apart."""
    groups = group_tokens(MEETING)
    assert groups.labels.tolist() == [[0, 1, 2], [0, 0, 2], [0, 0, 0]]
    assert groups.counts.tolist() == [3, 2, 1] and groups.gathered.tolist() == [0, 1, 1]
    assert groups.shares == pytest.approx([0, 2 / 3, 1])
    assert groups.thresholds.tolist() == [0.99] * 3 and groups.words == ("a", "b", "c")
    assert groups.merges() == [
        Merge(1.0, 0, 1, ("a",), ("b",)),
        Merge(2.0, 0, 2, ("a", "b"), ("c",)),
    ]
    assert groups.changes.tolist() == [[0, 0], [1, 0], [1, 0]]
    assert group_tokens(MEETING, cosine=0.9999).counts.tolist() == [3, 3, 3]
    assert group_tokens(MEETING, smallest=3).shares.tolist() == [0, 0, 1]


def test_lengths_play_no_role():
    states = MEETING.points * np.array([1.0, 7.0, 0.2])[:, None]
    longer = ms.Trajectory.from_states(states, sphere=False)
    assert group_tokens(longer).labels.tolist() == group_tokens(MEETING).labels.tolist()


def test_labels_follow_the_larger_part():
    """Of a split the larger part keeps the label; of a merge the larger side; new ones are new."""
    labels = follow_labels([np.array(p) for p in ([0, 0, 0, 1, 1], [5, 5, 7, 7, 7], [3] * 5)])
    assert labels.tolist() == [[0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [1] * 5]
    apart = follow_labels([np.array(p) for p in ([0, 0, 0, 0], [0, 0, 0, 1], [2, 2, 1, 1])])
    assert apart.tolist() == [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]]
    assert follow_labels([np.array([4, 2, 2])]).tolist() == [[1, 0, 0]]  # the largest is 0


def test_a_pair_that_parts_and_meets_again_keeps_its_label():
    groups = group_tokens(axes([0, 0, 1], [0, 2, 1], [0, 0, 1]))
    assert groups.labels[0].tolist() == groups.labels[2].tolist() == [0, 0, 1]


@pytest.mark.parametrize("seed", range(5))
def test_labels_name_the_partitions_and_merges_are_all_counted(seed):
    rng = np.random.default_rng(seed)
    run = axes(*rng.integers(0, 6, (7, 10)))
    groups, table = group_tokens(run), depthwise(run, thorough=False)
    for row, frame in zip(groups.labels, run.frames, strict=True):
        assert same_partition(row, clusters(frame, angle=float(np.arccos(0.99))).labels)
    assert np.array_equal(groups.counts, table.clusters)
    assert np.array_equal(groups.changes, np.column_stack([table.merges, table.splits]))
    layers = [merge.layer for merge in groups.merges()]
    assert [layers.count(time) for time in groups.times] == table.merges.tolist()


def test_a_merge_of_parts_names_the_words_that_met():
    groups = group_tokens(axes([0, 0, 0, 1, 1], [0, 0, 1, 1, 2], words=list("abcde")))
    assert groups.changes[1].tolist() == [1, 2]
    assert groups.merges() == [Merge(1.0, 1, 0, ("d",), ("c",))]


def test_adaptive_cuts_at_the_widest_gap():
    """Heights 1 − cos of 0.2, 0.2, 0.25 and 1 radian: the gap is before the last one."""
    run = circle([0, 0.2, 0.4, 1.4, 1.65], [0, 0.2, 0.4, 0.6, 0.8])
    groups = group_tokens(run, "adaptive")
    assert groups.labels.tolist() == [[0, 0, 0, 1, 1], [0] * 5]
    heights = 1 - np.cos([0.25, 1.0])
    assert heights[1] / heights[0] > CLEAR
    assert groups.thresholds == pytest.approx([1 - np.sqrt(heights.prod()), -1])


def test_adaptive_sees_no_gap_among_uniform_or_collapsed_tokens():
    rng = np.random.default_rng(0)
    uniform, tight = rng.normal(size=(2, 50, 64))
    run = ms.Trajectory.from_states(np.stack([uniform, 1 + 1e-4 * tight]))
    assert group_tokens(run, "adaptive").counts.tolist() == [1, 1]
    equal = axes([0, 0, 1, 1, 2], [0, 0, 0, 0, 0])
    assert group_tokens(equal, "adaptive").counts.tolist() == [3, 1]
    assert group_tokens(circle([0, 3], [0, 0]), "adaptive").counts.tolist() == [1, 1]


def test_kernel_groups_are_the_maxima_of_the_density():
    """Two tokens of the circle an angle a apart share a maximum while β·sin²(a/2) < cos(a/2)."""
    run = circle([0, 1, 3.5], [0, 2, 3.5])
    half = np.array([0.5, 0.75, 1.0])  # of the closest pair, then of the others
    merge = np.cos(half) / np.sin(half) ** 2
    assert merge[1] < 3 < merge[0]
    groups = group_tokens(run, "kernel", beta=3.0)
    assert groups.labels.tolist() == [[0, 0, 1], [0, 2, 1]]
    assert group_tokens(run, "kernel", beta=20.0).counts.tolist() == [3, 3]
    assert groups.thresholds.tolist() == [3.0, 3.0]


def test_hdbscan_noise_is_alone():
    rng = np.random.default_rng(0)
    blobs = np.repeat(np.eye(20)[:2], 6, axis=0) + 0.05 * rng.normal(size=(12, 20))
    states = np.stack([np.vstack([blobs, np.eye(20)[5:7]]), np.ones((14, 20))])
    groups = group_tokens(ms.Trajectory.from_states(states), "hdbscan")
    assert groups.labels[0].tolist() == [0] * 6 + [1] * 6 + [2, 3]
    assert groups.counts.tolist() == [4, 1] and np.isnan(groups.thresholds).all()
    few = group_tokens(circle([0, 3], [0, 0]), "hdbscan", smallest=3)
    assert few.counts.tolist() == [2, 2]


def test_largest_clusters_have_their_words():
    groups = group_tokens(axes([0, 1, 2, 3, 4, 5], [2, 0, 2, 1, 2, 1], words=list("abcdef")))
    assert groups.largest(5) == [("a", "c", "e"), ("d", "f")]
    assert groups.largest(1) == [("a", "c", "e")] and groups.largest(3, state=0) == []
    with pytest.raises(ValueError, match="state must be one of 2"):
        groups.largest(1, state=2)


def test_no_clustering_in_words():
    run = circle([0, 1, 2], [0, 1, 2], [0, 1, 2.2])
    assert group_tokens(run).sentence() == (
        "3 tokens: no two within cosine 0.99 between layers 0 and 2."
    )
    assert group_tokens(run, smallest=3).sentence() == (
        "3 tokens: no cluster of 3 or more between layers 0 and 2 (chains of cosine ≥ 0.99)."
    )
    assert group_tokens(run, "adaptive").sentence() == (
        "3 tokens: nothing sets any apart between layers 0 and 2 (single linkage cut at its "
        "widest gap)."
    )
    assert group_tokens(run, "kernel", beta=50.0).sentence() == (
        "3 tokens: no cluster of two or more between layers 0 and 2 (maxima of the kernel density "
        "at β = 50)."
    )


def test_collapse_in_words():
    run = axes([0, 1, 2, 3], [0, 1, 2, 3], [0, 0, 2, 3], [0, 0, 0, 0], [0, 0, 0, 0])
    assert group_tokens(run).sentence() == (
        "4 tokens: no two within cosine 0.99 until layer 2; all in one cluster from layer 3 on; "
        "3 merges, most between layers 2 and 3."
    )
    assert group_tokens(axes([0, 0], [0, 0])).sentence() == (
        "2 tokens: all in one cluster from layer 0 to the end (chains of cosine ≥ 0.99)."
    )


def test_clusters_from_the_start_in_words():
    words = ["the", "cat", "and", "the", "dog", ","]
    run = axes([0, 1, 2, 0, 3, 4], [0, 1, 2, 0, 1, 4], words=words)
    assert group_tokens(run).sentence() == (
        "6 tokens: at layer 0 only equal words stand together (1 cluster, chains of cosine ≥ "
        "0.99); 2 clusters at layer 1, the largest of 2 tokens (the), and 2 tokens alone; 1 merge "
        "between layers 0 and 1."
    )
    other = group_tokens(axes([0, 0, 1], [0, 0, 1], words=["a", ",", "c"]))
    assert other.sentence() == (
        "3 tokens: 1 cluster at layer 0 already (chains of cosine ≥ 0.99); 1 cluster at layer 1, "
        "of 2 tokens (a, “,”), and 1 token alone; none merges or splits."
    )
    gone = group_tokens(axes([0, 0, 1], [0, 2, 1], [0, 2, 1], words=["a", "a", "c"]))
    assert gone.sentence().endswith("; none is left from layer 1 on.")


def test_splits_at_the_end_in_words():
    run = axes([0, 1, 2, 3], [0, 0, 0, 3], [0, 0, 0, 0], [0, 0, 1, 1], words=list("abcd"))
    assert group_tokens(run).sentence() == (
        "4 tokens: no two within cosine 0.99 until layer 1; 2 clusters at layer 3, the largest of "
        "2 tokens (a, b); 3 merges, most between layers 0 and 1; fewest clusters at layer 2 (1), "
        "then splits into 2."
    )
    single = group_tokens(axes([0, 0, 1], [0, 2, 1], [0, 0, 1], [0, 0, 1]))
    assert single.sentence().endswith("; 1 merge between layers 1 and 2, and 1 split.")


def test_other_clocks_are_times():
    run = circle([0, 1], [0, 0], clock="SA")
    assert "until time 1; all in one cluster from time 1 on" in group_tokens(run).sentence()


def test_a_table_of_states(tmp_path):
    pandas = pytest.importorskip("pandas")
    groups = group_tokens(MEETING)
    frame = groups.to_dataframe()
    names = "layer clusters gathered share merges splits threshold".split()
    assert list(frame) == names and frame["clusters"].tolist() == [3, 2, 1]
    path = groups.to_csv(tmp_path / "groups.csv")
    pandas.testing.assert_frame_equal(pandas.read_csv(path), frame)
    with pytest.raises(ValueError, match=r"path must not exist yet; got .*groups\.csv"):
        groups.to_csv(path)
    with pytest.raises(ValueError, match="folder that exists"):
        groups.to_csv(tmp_path / "absent" / "groups.csv")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"how": "means"}, "how must be one of linkage, adaptive, kernel, hdbscan; got 'means'"),
        ({"cosine": 1.0}, "cosine must lie between −1 and 1; got 1.0"),
        ({"smallest": 1}, "smallest must be an integer >= 2; got 1"),
        ({"how": "kernel"}, "beta must be a number for how='kernel'; got None: give the median"),
        ({"how": "kernel", "beta": -1.0}, "beta must be > 0; got -1.0"),
        ({"beta": 9.0}, "beta must be left out for how='linkage'; got 9.0"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ValueError) as refused:
        group_tokens(MEETING, **settings)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_refused_runs():
    with pytest.raises(ValueError, match="run must be a trajectory, as capture"):
        group_tokens(MEETING.points)
    merged = ms.Trajectory(
        np.arange(2.0), (ms.polygon(3), ms.polygon(2)), "SA", MEETING.outcome, {"seconds": 0.0}
    )
    with pytest.raises(ValueError, match="same tokens in every state; got 2 to 3"):
        group_tokens(merged)


def test_hdbscan_needs_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(ValueError, match=r"needs the package scikit-learn: install the extra"):
        group_tokens(MEETING, "hdbscan")


def test_the_figure_puts_together_what_ends_together():
    words = ["a", "$$", "c", "d", "a word of many letters", "f"]
    run = axes([0, 1, 2, 3, 4, 5], [0, 1, 0, 1, 4, 5], [0, 1, 0, 1, 0, 5], words=words)
    figure = plot_groups(group_tokens(run))
    assert isinstance(figure, Map)
    assert list(figure.y.names) == ["a", "c", "a word of man…", r"\$\$", "d", "1 other"]
    rows = np.asarray(figure.values)
    rows = rows[~np.isnan(rows).all(axis=1)]
    assert (rows[:, 0] == -1).all() and (rows[-1] == -1).all()
    big, small = rows[0, 2], rows[3, 2]
    assert big >= 0 and small >= 0 and big != small
    assert rows[:, 1].tolist() == [big, big, -1, small, small, -1]
    assert rows[:, 2].tolist() == [big, big, big, small, small, -1]
    assert "chains of cosine ≥ 0.99" in figure.caption and "last row 1 that" in figure.caption
    draw(figure).canvas.draw()
    read = from_tree(*figure.to_tree())
    assert np.array_equal(read.values, figure.values, equal_nan=True)


def test_many_words_are_thinned_and_neighbours_differ():
    tokens = 140
    states = np.random.default_rng(0).normal(size=(2, tokens, 300))
    states[1] = np.repeat(states[1, : tokens // 2], 2, axis=0)  # seventy pairs
    figure = plot_groups(group_tokens(ms.Trajectory.from_states(states)))
    assert len(figure.y.names) == len(figure.y.places) == 47 <= MOST_ROWS
    assert "one in 3 is named" in figure.caption
    ends = np.asarray(figure.values)[:, 1]
    ends = ends[~np.isnan(ends)].reshape(-1, 2)
    assert (ends[:, 0] == ends[:, 1]).all() and (ends[1:, 0] != ends[:-1, 0]).all()
    assert set(ends.ravel()) == set(range(COLORS)) and len(CATEGORIES) == COLORS


def test_a_figure_without_clusters_names_every_token():
    figure = plot_groups(group_tokens(circle([0, 1, 2], [0, 1, 2], words=["a", "b", "c"])))
    assert list(figure.y.names) == ["a", "b", "c"] and (np.asarray(figure.values) == -1).all()
    draw(figure).canvas.draw()


def test_clusters_that_never_touch_have_colors_of_their_own():
    """Two tokens that stand together at first, and two others that do so later."""
    run = axes([0, 0, 2, 3], [0, 1, 2, 3], [0, 1, 2, 2])
    values = np.asarray(plot_groups(group_tokens(run)).values)
    early, late = values[:, 0], values[:, 2]
    first, second = set(early[early >= 0]), set(late[late >= 0])
    assert len(first) == len(second) == 1 and first != second
