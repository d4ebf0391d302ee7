"""Moving pictures of runs on the circle and on S²."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from metastable import checks
from metastable.flows import Trajectory
from metastable.report.globe import check_drawable, draw_snapshot, snapshot_colours, view_of
from metastable.report.style import INK, new_figure

__all__ = ["animate"]


def animate(run: Trajectory, path: str | Path, seconds: float = 6.0, frames: int = 90) -> Path:
    """Write a GIF of a run on the circle or S², and return its path.

    At most `frames` of the run's frames, evenly chosen, so the speed is that of the run's own
    frame times; the last one stays for a second.
    """
    check_drawable(run)
    checks.positive("seconds", seconds)
    chosen = np.linspace(0, len(run.times) - 1, checks.integer("frames", frames, 2))
    chosen = np.unique(chosen.round().astype(int))
    colours, _ = snapshot_colours(run)
    view = view_of(run.frames[-1])
    figure, ax = new_figure(size=(4.0, 4.3))
    figure.set_facecolor("white")
    canvas = FigureCanvasAgg(figure)
    images = []
    for index in chosen:
        ax.clear()
        draw_snapshot(ax, run.frames[index], colours, view)
        ax.set_title(f"t = {run.times[index]:.3g} ({run.clock} clock)", color=INK)
        canvas.draw()
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
