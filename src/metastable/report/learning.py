"""Figures and the page of a learning experiment: losses on both scales, facts, outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.learn.lesson import Curves, Frames, Lesson
from metastable.report.drawing import write_film
from metastable.report.lesson_pictures import draw_chart, draw_frames, film_frames
from metastable.report.page import Facts, Picture, Section, write_page
from metastable.report.style import CATEGORIES, INK, legend, new_figure
from metastable.report.svg import save_figure

__all__ = ["draw_curves", "report_lesson"]

DASHES = ("-", "--", "-.", ":")
DECADES = 12  # shown on the logarithmic scale; a perfect fit would flatten everything else


def draw_curves(curves: Curves) -> Figure:
    """The lines on a linear and on a logarithmic scale, side by side.

    The linear scale shows the fall, the logarithmic one what goes on after it. Zeros, which a
    logarithm cannot show, are left out of the second, and what lies twelve decades down is cut off.
    """
    figure, axes = new_figure(1, 2, size=(8.2, 3.1))
    powers = curves.powers or "tokens" in curves.x
    for k, ax in enumerate(axes[0]):
        for j, (name, (x, y)) in enumerate(curves.lines.items()):
            x, y = np.asarray(x, float), np.asarray(y, float)
            shown = np.isfinite(y) & ((y > 0) if k else True)
            style = {"color": CATEGORIES[j], "ls": DASHES[j % 4], "lw": 1.5, "label": name}
            marker = {"marker": "o", "ms": 3.5} if len(x) <= 20 else {}
            ax.plot(x[shown], y[shown], **style, **marker)
            if name in curves.bars:
                half = np.asarray(curves.bars[name])[shown]
                ax.errorbar(x[shown], y[shown], half, fmt="none", ecolor=CATEGORIES[j], capsize=2)
        for name, level in curves.levels.items():
            ax.axhline(level, color=INK, lw=0.9, ls=":", label=f"{name} {level:.2e}")
        ax.set(xlabel=curves.x, ylabel=curves.y if k == 0 else "")
    axes[0, 1].set_yscale("log")
    low, high = axes[0, 1].get_ylim()
    axes[0, 1].set_ylim(max(low, high * 10.0**-DECADES), high)
    if powers:
        axes[0, 1].set_xscale("log", base=2)
    if len(curves.lines) + len(curves.levels) > 4:  # too many to lie among the lines
        legend(axes[0, 1], loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        legend(axes[0, 0], loc="best")
    figure.set_label(curves.caption)
    return figure


def report_lesson(lesson: Lesson, folder: str | Path) -> Path:
    """Write `report.html`, `figures/` and `result.json` of a lesson; return the page's path."""
    folder = Path(folder)
    pictures = []
    for name, curves in lesson.curves.items():
        figure = draw_curves(curves)
        save_figure(figure, folder / "figures", name)
        pictures.append(Picture(figure))
    for name, picture in lesson.pictures.items():
        figure = draw_frames(picture) if isinstance(picture, Frames) else draw_chart(picture)
        save_figure(figure, folder / "figures", name)
        pictures.append(Picture(figure))
        if isinstance(picture, Frames):
            write_film(film_frames(picture), folder / "figures" / f"{name}.gif")
    facts = {name: _shown(value) for name, value in lesson.facts.items()}
    page = write_page(
        folder / "report.html",
        f"Learning: {lesson.name}",
        Section("Curves", pictures),
        Section("Setting and result", [Facts(facts | {"outcome": str(lesson.outcome)})]),
    )
    (folder / "result.json").write_text(json.dumps(lesson.to_json(), indent=1) + "\n")
    return page


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return {name: _shown(one) for name, one in value.items()}
    return value
