"""Moving pictures of runs: on the circle, on S², and in R^d up to d = 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from metastable.core import checks
from metastable.fields import Rescaled
from metastable.flows import Trajectory
from metastable.observe.attention import attention
from metastable.observe.clusters import clusters
from metastable.report.clouds import Planes, draw_cloud, view_from
from metastable.report.globe import check_drawable, draw_snapshot, snapshot_colours, view_of
from metastable.report.style import INK, TIME, category_colors, new_figure

__all__ = ["animate", "animate_space", "film"]


def animate(run: Trajectory, path: str | Path, seconds: float = 6.0, frames: int = 90) -> Path:
    """Write a GIF of a run on the circle or S², and return its path.

    At most `frames` of the run's frames, evenly chosen, so the speed is that of the run's own
    frame times; the last one stays for a second.
    """
    check_drawable(run)
    checks.positive("seconds", seconds)
    colours, _ = snapshot_colours(run)
    view = view_of(run.frames[-1])
    figure, ax = new_figure(size=(4.0, 4.3))

    def draw(index: int, share: float) -> None:
        ax.clear()
        draw_snapshot(ax, run.frames[index], colours, view)
        ax.set_title(_time(run, index), color=INK)

    return film(figure, draw, _chosen(run, frames), path, seconds)


def animate_space(
    run: Trajectory,
    path: str | Path,
    seconds: float = 6.0,
    frames: int = 90,
    *,
    planes: Planes | None = None,
    matrix: bool = False,
) -> Path:
    """Write a GIF of tokens in R, R² or R³ with their convex hull, and return its path.

    Tokens have the colour of the place (or plane) where they end; R³ is seen from a side that
    turns slowly. `planes` are parallel hyperplanes to show, as (functional, levels). With `matrix`
    the attention matrix P(t) stands beside the tokens, rows and columns in the order of their last
    first coordinate; the run must then be one of `Rescaled`.
    """
    first = run.frames[0]
    if first.on_sphere or first.dim > 3:
        raise ValueError(f"run must be in R^d, d <= 3, to be drawn so; got {first!r}.")
    if matrix and not isinstance(run.field, Rescaled):
        raise ValueError(f"matrix needs a run of Rescaled(...); got {run.field!r}.")
    checks.positive("seconds", seconds)
    chosen = _chosen(run, frames)
    reach = 1.08 * max(float(np.abs(run.frames[k].points).max()) for k in chosen)
    if first.dim == 3:
        reach *= 1.15  # a turned box needs more room
    last = run.frames[-1]
    if planes is None:
        labels = clusters(last, angle=0.01 * reach).labels
    else:
        values = np.asarray(last.points) @ np.asarray(planes[0], float)
        labels = np.abs(values[:, None] - np.asarray(planes[1])).argmin(axis=1) + 2
    colours = category_colors(labels)  # those of the planes begin at the third
    figure, axes = new_figure(1, 1 + matrix, size=(4.0 + 3.6 * matrix, 4.3 if first.dim > 1 else 3))
    left, right = axes[0] if matrix else (axes, None)
    order = np.argsort(np.asarray(last.points)[:, 0])

    def draw(index: int, share: float) -> None:
        left.clear()
        view = view_from(0.5 + share) if first.dim == 3 else None
        points = np.asarray(run.frames[index].points)
        draw_cloud(left, points, colours, reach, view=view, planes=planes)
        left.set_title(_time(run, index), color=INK)
        if right is not None:
            right.clear()
            right.imshow(_attention(run, index)[np.ix_(order, order)], cmap=TIME, vmin=0, vmax=1)
            right.set(xlabel="token j", ylabel="token i")
            right.set_title("attention $P_{ij}(t)$", color=INK)
            right.grid(False)
            for axis in (right.xaxis, right.yaxis):
                axis.set_major_locator(MaxNLocator(5, integer=True))

    return film(figure, draw, chosen, path, seconds)


def _attention(run: Trajectory, index: int) -> np.ndarray:
    field: Any = run.field
    a = field.attention
    tokens = field.tokens(run.frames[index], run.times[index])
    return np.asarray(attention(tokens, a.beta, a.query, a.key))


def _chosen(run: Trajectory, frames: int) -> np.ndarray:
    chosen = np.linspace(0, len(run.times) - 1, checks.integer("frames", frames, 2))
    return np.unique(chosen.round().astype(int))


def _time(run: Trajectory, index: int) -> str:
    return f"t = {run.times[index]:.3g} ({run.clock} clock)"


def film(
    figure: Figure,
    draw: Callable[[int, float], None],
    chosen: Sequence[int] | np.ndarray,
    path: str | Path,
    seconds: float,
) -> Path:
    """Write what `draw(index, share of the way)` puts on the figure as a GIF, and return its path.

    The last picture is held for a second.
    """
    figure.set_facecolor("white")
    canvas = FigureCanvasAgg(figure)
    images = []
    for k, index in enumerate(chosen):
        draw(int(index), k / max(len(chosen) - 1, 1))
        canvas.draw()
        # The first frame lays the page out; moving the axes later would make the picture tremble.
        figure.set_layout_engine("none")
        image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        images.append(image.quantize(64))
    each = [int(1000 * seconds / len(images))] * len(images)
    each[-1] += 1000
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    images[0].save(
        path, format="GIF", save_all=True, append_images=images[1:], duration=each, loop=0
    )
    return path
