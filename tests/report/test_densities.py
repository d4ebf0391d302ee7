"""Figures of density runs: they are chosen by geometry, labelled, and survive a hand-over."""

from __future__ import annotations

import numpy as np

import metastable as ms
from metastable.measures import Density
from metastable.report import draw
from metastable.report.figures import figures_of


def made(*frames):
    times = np.arange(float(len(frames)))
    return ms.Trajectory(times, frames, "SA", ms.Outcome.done(), {}, ms.SelfAttention(3.0))


def test_figures_follow_the_geometry():
    circle = Density.mode(2, 2, 0.1)
    runs = {
        "density": made(circle, circle.resized(9), circle.to_points(20)),
        "maps": made(Density.mode(3, 2, 0.1), Density.mode(3, 2, 0.2), ms.uniform(9, 3)),
    }
    for name, run in runs.items():
        figures = figures_of(run)
        assert list(figures) == [name, "amplitudes", "energy"]
        assert all("SA clock" in figure.caption for figure in figures.values())
        draw(figures[name]).canvas.draw()
    assert "20 tokens (dots)" in figures_of(runs["density"])["density"].caption
    zonal = figures_of(made(Density.mode(8, 2, 0.1), Density.mode(8, 2, 0.2)))
    assert "on S^7" in zonal["density"].caption
    drawn = draw(zonal["amplitudes"]).axes[0]
    assert drawn.get_yscale() == "log" and "degree" in drawn.get_ylabel()
