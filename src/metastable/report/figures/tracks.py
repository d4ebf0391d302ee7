"""What figures need of a run: tokens followed through time, frames worth showing, colours."""

from __future__ import annotations

import numpy as np

from metastable.flows import Trajectory
from metastable.observe.clusters import Clusters, clusters
from metastable.observe.kernel import kernel_modes
from metastable.observe.phases import plateaus
from metastable.observe.summary import attention_of


def follow(run: Trajectory) -> np.ndarray | None:
    """Tokens through time, (T, n, d), or None when mergers changed their number."""
    same = all(frame.count == run.frames[0].count for frame in run.frames)
    return run.points if same else None


def beta_of(run: Trajectory) -> float | None:
    attention = attention_of(run.field)
    return None if attention is None else float(attention.beta)


def choose_frames(run: Trajectory, count: int) -> np.ndarray:
    """Indices of `count` frames (all, if there are fewer), first and last included.

    They are dense where tokens move: equal shares of the path length of the average token, with a
    third of equal shares of the frames mixed in, so that a metastable plateau is not left out.
    """
    shares = np.linspace(0, 1, len(run.times))
    tokens = follow(run)
    if tokens is not None and len(run.times) > 1:
        moved = np.linalg.norm(np.diff(tokens, axis=0), axis=2) @ np.asarray(run.frames[0].weights)
        path = np.concatenate([[0.0], np.cumsum(moved)])
        if path[-1] > 0:
            shares = (2 * path / path[-1] + shares) / 3
    count = min(count, len(run.times))
    chosen: list[int] = []
    for k, target in enumerate(np.linspace(0, 1, count)):
        first, stop = chosen[-1] + 1 if chosen else 0, len(run.times) - (count - k) + 1
        chosen.append(first + int(np.abs(shares[first:stop] - target).argmin()))
    return np.array(chosen)


def groups_of(run: Trajectory, index: int) -> Clusters:
    """Clusters of one frame: maxima of the potential where there is a β, else by linkage."""
    beta, frame = beta_of(run), run.frames[index]
    return kernel_modes(frame, beta) if beta else clusters(frame)


def partition(run: Trajectory) -> tuple[Clusters, float]:
    """The clusters that colour the tokens, and the time of the frame they are taken from.

    Those of the last frame; if that is a single one, those at the end of the longest plateau (in
    log time) with several, for otherwise the picture would have one colour.
    """
    last = groups_of(run, -1)
    if last.count == 1 and len(run.times) > 1:
        beta = beta_of(run)
        counts = [clusters(frame, beta).count for frame in run.frames]
        found = [p for p in plateaus(run.times, counts, min_log_length=0.1) if p.value > 1]
        if found:
            first = run.times[run.times > 0][0]
            longest = max(found, key=lambda p: p.end / max(p.start, first))
            index = int(np.searchsorted(run.times, longest.end))
            return groups_of(run, index), float(run.times[index])
    return last, float(run.times[-1])
