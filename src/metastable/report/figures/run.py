"""Figures of a run of tokens: where they are, and observables against time."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.figure import COLORS, Axis, Cloud, Lines, Map, Paths, Series, Strip, time_axis
from metastable.fields import Rescaled
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.observe.clusters import Clusters, clusters
from metastable.observe.geometry import hull
from metastable.observe.kernel import kernel_modes
from metastable.observe.pairs import carrying
from metastable.observe.phases import plateaus
from metastable.observe.similarity import effective_rank, similarity
from metastable.observe.summary import attention_of, energy_form, energy_series

MOST_LINES = 500  # past this the lines cover each other
MOST_TOKENS = 1500  # pairs grow with the square; a histogram needs no more
MODE_FRAMES = 24  # maxima of the potential on S² cost tenths of a second per frame
SHARE_OF_PAIRS = Axis("share of pairs", scale="log", limits=(1e-4, 1.0))


def plot_angles(run: Trajectory, log: bool | None = None) -> Lines:
    """Angles of tokens on the circle against time, unwrapped, in the color of their cluster."""
    tokens = token_tracks(run)
    angle = Axis("angle θ", unit="rad", ticks="pi")
    if tokens is None:
        x = np.repeat(run.times, [frame.count for frame in run.frames])
        y = np.concatenate([np.asarray(frame.angles) for frame in run.frames])
        masses = np.concatenate([np.asarray(frame.weights) for frame in run.frames])
        dots = Series("", x, y, style="points", sizes=np.clip(60 * masses, 0.5, 30))
        caption = "Angles of the tokens on the circle; dots grow with the mass of merged tokens"
        return _over_time(run, log, angle, caption, series=[dots])
    theta = unwrap(np.arctan2(tokens[..., 1], tokens[..., 0]))
    groups, moment = partition(run)
    count = theta.shape[1]
    shown = f"{MOST_LINES} of {count}" if count > MOST_LINES else str(count)
    caption = f"Angles of {shown} tokens on the circle, unwrapped, in the color of the maximum of "
    caption += f"the potential they belong to at t = {moment:.4g}"
    notes: list[tuple[float, float, str]] = []
    if moment == run.times[-1]:
        caption += " (percent of the mass at the right)"
        for k, mass in enumerate(groups.masses[:COLORS]):
            place = float(np.median(theta[-1][groups.labels == k]))
            if all(abs(place - other) > 0.45 for _, other, _ in notes):  # else they would overlap
                notes.append((float(run.times[-1]), place, f"{100 * mass:.3g} %"))
    paths = _paths(run.times, theta, groups.labels)
    return _over_time(run, log, angle, caption, paths=paths, notes=notes)


def plot_line(run: Trajectory, log: bool | None = None) -> Lines:
    """Tokens in R against time."""
    tokens = token_tracks(run)
    if tokens is None:
        raise ValueError("run must keep its tokens to draw them in R; it has merged some.")
    paths = _paths(run.times, tokens[..., 0], partition(run)[0].labels)
    return _over_time(run, log, Axis(_letter(run)), f"{tokens.shape[1]} tokens in R", paths=paths)


def unwrap(theta: np.ndarray) -> np.ndarray:
    """Continuous angles (T, n), in the branch where the widest gap of the last frame is the cut.

    So no final cluster is torn apart by the cut, though early angles may leave one turn.
    """
    theta = np.unwrap(theta, axis=0)
    last = np.sort(theta[-1] % (2 * np.pi))
    gaps = np.diff(np.append(last, last[0] + 2 * np.pi))
    widest = int(gaps.argmax())
    cut = last[widest] + gaps[widest] / 2
    # The turn that starts at the cut, moved to be as close to (−π, π] as it can.
    cut -= 2 * np.pi * np.round((cut + np.pi) / (2 * np.pi))
    return theta - 2 * np.pi * np.floor((theta[-1] - cut) / (2 * np.pi))


def plot_strip(run: Trajectory, count: int = 6) -> Strip:
    """A strip of `count` frames of a run on the circle or S², dense where tokens move."""
    check_on_sphere(run)
    chosen = choose_frames(run, count)
    groups, moment = cluster_of_each(run)
    view = view_of(run.frames[-1])
    # A long name of a clock stands in the caption alone.
    title = "t = {:.3g}" + (f" ({run.clock} clock)" if len(run.clock) < 6 else "")
    frames = [snapshot(run.frames[k], groups, view, title.format(run.times[k])) for k in chosen]
    caption = f"{run.frames[0].count} tokens at {len(chosen)} times of the {run.clock} clock"
    if groups is not None:
        caption += f", in the color of their cluster at t = {moment:.4g}"
    caption += "; dots grow with the mass at their place."
    if run.frames[0].dim == 3:
        caption += " Orthographic view; tokens on the far side are faint."
    return Strip(frames, caption=caption)


def snapshot(measure: Points, groups: np.ndarray | None, view: np.ndarray, title: str) -> Cloud:
    """Tokens on the circle, or on S² seen along the last row of `view`; close ones as one dot."""
    gathered = clusters(measure, angle=0.02)
    tight = gathered.radii < 0.04
    alone = ~np.append(tight, False)[gathered.labels]
    numbers, firsts = np.unique(gathered.labels, return_index=True)
    heads = np.concatenate([np.flatnonzero(alone), firsts[numbers >= 0][tight]])
    places = np.concatenate([np.asarray(measure.points)[alone], gathered.centres[tight]])
    masses = np.concatenate([np.asarray(measure.weights)[alone], gathered.masses[tight]])
    colored = np.zeros(len(heads), int) if groups is None else groups[heads]
    space = "circle" if measure.dim == 2 else "sphere"
    return Cloud(places, space, groups=colored, masses=masses, view=view, title=title)


def view_of(measure: Points) -> np.ndarray:
    """Rows right, up and towards the reader, (3, 3): the side that shows most of the mass.

    A small power of the depth favors many clusters inside the disc over one in its center.
    North is up, and the view stays within 53° of the equator.
    """
    if measure.dim != 3:
        return np.eye(3)
    k = np.arange(400)
    height, turn = 0.8 * (2 * (k + 0.5) / k.size - 1), k * np.pi * (3 - np.sqrt(5))
    radius = np.sqrt(1 - height**2)
    sides = np.column_stack([radius * np.cos(turn), radius * np.sin(turn), height])
    depths = np.asarray(measure.points) @ sides.T
    towards = sides[np.argmax(np.asarray(measure.weights) @ np.maximum(depths, 0) ** 0.35)]
    right = np.cross([0.0, 0.0, 1.0], towards)
    right /= np.linalg.norm(right)
    return np.array([right, np.cross(towards, right), towards])


def plot_hulls(run: Trajectory, count: int = 6) -> Lines:
    """Tokens and their convex hull in the first two axes, at several times."""
    if run.frames[0].dim < 2:
        raise ValueError("run must have dim >= 2 for hulls in the plane; use plot_line for dim 1.")
    chosen = choose_frames(run, count)
    series = []
    for shade, index in zip(np.linspace(0, 1, len(chosen)), chosen, strict=True):
        plane = np.asarray(run.frames[index].points)[:, :2]
        corners = hull(Points(plane, run.frames[index].weights, on_sphere=False)).points
        around = np.argsort(np.arctan2(*(corners - corners.mean(axis=0)).T[::-1]))
        closed = corners[np.append(around, around[0])]
        series.append(Series(f"{run.times[index]:.3g}", *closed.T, shade=float(shade)))
        series.append(Series("", *plane.T, style="points", shade=float(shade)))
    letter = _letter(run)
    rescaled = " in the rescaled variable z = exp(−tV)x" if letter == "z" else ""
    flat = "" if run.frames[0].dim == 2 else ", projected to the first two axes,"
    caption = f"{run.frames[0].count} tokens{rescaled}{flat} and their convex hull at "
    caption += f"{len(chosen)} times of the {run.clock} clock."
    axes, names = (Axis(f"${letter}_1$"), Axis(f"${letter}_2$")), f"t ({run.clock} clock)"
    return Lines(*axes, series, caption=caption, names=names, equal=True, size=(5.4, 3.8))


def plot_similarity(run: Trajectory, bins: int = 60, log: bool | None = None) -> Map:
    """Histogram of the cosines of all pairs of tokens through time, as a map, and its mean."""
    chosen = choose_frames(run, 101)
    times = run.times[chosen]
    count = run.frames[0].count
    tokens = min(count, MOST_TOKENS) if token_tracks(run) is None else None
    pairs = [similarity(thinned(run.frames[k]), bins=bins, tokens=tokens) for k in chosen]
    shares = np.array([each.histogram for each in pairs]).T
    part = f" ({MOST_TOKENS} of {count} tokens)" if count > MOST_TOKENS else ""
    label = r"$\langle x_i, x_j\rangle$" if run.frames[0].on_sphere else r"$\cos\angle(x_i, x_j)$"
    axes = time_axis(times, run.clock, log), Axis(label, limits=(-1.02, 1.02)), SHARE_OF_PAIRS
    values = borders(times), pairs[0].edges, np.where(shares > 0, shares, np.nan)
    lines = [Series("mean", times, np.array([each.mean for each in pairs]))]
    caption = f"Cosines of all pairs of different tokens{part} in {bins} bins through time, and "
    caption += f"their mean (line). {clock_sentence(run)}"
    return Map(*axes, *values, lines, palette="density", caption=caption)


def plot_clusters(run: Trajectory, log: bool | None = None) -> Lines:
    """Number of clusters against time, by linkage and as maxima of the potential."""
    beta = beta_of(run)
    counts = np.array([clusters(frame, beta).count for frame in run.frames])
    series = [Series("by linkage", run.times, counts, style="steps")]
    caption = "Number of clusters by linkage (chains of near neighbors)"
    most, least = counts.max(), counts.min()
    if beta:
        chosen = choose_frames(run, MODE_FRAMES)
        modes = np.array([kernel_modes(run.frames[k], beta).count for k in chosen])
        label = "maxima of the potential"
        series.append(Series(label, run.times[chosen], modes, style="points", group=5))
        most, least = max(most, modes.max()), min(least, modes.min())
        caption += " and as maxima of the potential, which also hold before tokens have gathered"
    if most > 20 * least:
        axis = Axis("clusters", scale="log", ticks="integer")
    else:
        axis = Axis("clusters", ticks="integer", limits=(0.0, float(most + 1)))
    return _over_time(run, log, axis, caption, series=series)


def plot_energy(run: Trajectory, log: bool | None = None) -> Lines:
    """Interaction energy against time: a staircase, one step 2w_iw_j for each merger."""
    values = energy_series(run)
    head = attention_of(run.field)
    if values is None or head is None:
        raise ValueError("run must be self-attention on the sphere to have an energy.")
    if head.beta == 0:
        label, caption = r"energy $\frac{1}{2}\,\|\Sigma_i w_i x_i\|^2$", "Kuramoto energy"
    elif energy_form(head) is None:
        label = r"energy $2\beta e^{-\beta}\,E_\beta$"
        caption = "Energy 2β exp(−β) E, which is 1 for a single cluster"
        if head.value is None:
            caption += " and climbs by twice the product of the masses when two clusters merge"
    else:
        label, caption = r"energy $E_\beta$", "Energy of the field, with ⟨Vx, y⟩ in the exponent"
    series = [Series("", run.times, values, group=2)]
    return _over_time(run, log, Axis(label), caption, series=series)


def plot_rank(run: Trajectory, log: bool | None = None) -> Lines:
    """Effective rank of the token matrix against time."""
    ranks = np.array([effective_rank(frame) for frame in run.frames])
    limits = min(1.0, float(ranks.min())) - 0.05, 1.05 * max(float(ranks.max()), 1.2)
    most = min(run.frames[0].count, run.frames[0].dim)
    axis, series = Axis("effective rank", limits=limits), [Series("", run.times, ranks, group=3)]
    caption = f"Effective rank of the tokens, between 1 (one direction) and {most}"
    return _over_time(run, log, axis, caption, series=series)


def plot_own(run: Trajectory, about: str, values: np.ndarray) -> Lines:
    """An observable that a user registered, against time."""
    series = [Series("", run.times, values, group=4)]
    return _over_time(run, None, Axis(about), about, series=series)


def _over_time(run: Trajectory, log: bool | None, y: Axis, caption: str, **rest: Any) -> Lines:
    time = time_axis(run.times, run.clock, log)
    return Lines(time, y, caption=f"{caption}. {clock_sentence(run)}", **rest)


def cluster_of_each(run: Trajectory) -> tuple[np.ndarray | None, float]:
    """The cluster of each token, and the time of those clusters; None once tokens merged."""
    if token_tracks(run) is None:
        return None, float(run.times[-1])
    groups, moment = partition(run)
    return groups.labels, moment


def token_tracks(run: Trajectory) -> np.ndarray | None:
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
    tokens = token_tracks(run)
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


def partition(run: Trajectory) -> tuple[Clusters, float]:
    """The clusters that color the tokens, and the time of the frame they are taken from.

    Those of the last frame; if that is a single one, those at the end of the longest plateau (in
    log time) with several, for otherwise the picture would have one color.
    """
    beta = beta_of(run)

    def groups(frame: Points) -> Clusters:
        """By linkage, as they are counted; by maxima of the potential before tokens gather."""
        linked = clusters(frame, beta)
        gathered = linked.count <= COLORS and linked.radii.max(initial=0) < 0.1
        return linked if gathered or not beta else kernel_modes(frame, beta)

    last = groups(run.frames[-1])
    if last.count == 1 and len(run.times) > 1:
        counts = [clusters(frame, beta).count for frame in run.frames]
        several = [p for p in plateaus(run.times, counts, min_log_length=0.1) if p.value > 1]
        if several:
            first = run.times[run.times > 0][0]
            longest = max(several, key=lambda p: p.end / max(p.start, first))
            index = int(np.searchsorted(run.times, longest.end))
            return groups(run.frames[index]), float(run.times[index])
    return last, float(run.times[-1])


def _paths(times: np.ndarray, values: np.ndarray, labels: np.ndarray) -> Paths:
    shown = np.unique(np.linspace(0, values.shape[1] - 1, MOST_LINES).astype(int))
    return Paths(times, values[:, shown].T, labels[shown])


def thinned(frame: Points) -> Points:
    """The measure, or as many of its tokens as a histogram of pairs needs."""
    if frame.count <= MOST_TOKENS:
        return frame
    points, weights, _ = carrying(frame)
    kept = np.random.default_rng(0).permutation(len(weights))[:MOST_TOKENS]
    return Points(points[kept], weights[kept], on_sphere=frame.on_sphere)


def borders(times: np.ndarray) -> np.ndarray:
    """Borders between frames, half way; the first and last frame are cut at themselves."""
    return np.concatenate([times[:1], (times[1:] + times[:-1]) / 2, times[-1:]])


def _letter(run: Trajectory) -> str:
    return "z" if isinstance(run.field, Rescaled) else "x"


def clock_sentence(run: Trajectory) -> str:
    return f"Time in the {run.clock} clock."


def check_on_sphere(run: Trajectory) -> None:
    first = run.frames[0]
    if not first.on_sphere or first.dim > 3:
        raise ValueError(f"run must be on the circle or S² to be drawn so; got {first!r}.")
