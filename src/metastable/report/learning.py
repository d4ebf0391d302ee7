"""The page of a learning experiment: losses on both scales, facts, outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from metastable.learn.lesson import Frames, Lesson
from metastable.report.drawing import write_film
from metastable.report.figures.learning import film_frames, plot_chart, plot_curves, plot_frames
from metastable.report.page import Facts, Picture, Section, write_page
from metastable.report.svg import save_figure

__all__ = ["report_lesson"]


def report_lesson(lesson: Lesson, folder: str | Path) -> Path:
    """Write `report.html`, `figures/` and `result.json` of a lesson; return the page's path."""
    folder = Path(folder)
    pictures = []
    for name, curves in lesson.curves.items():
        figure = plot_curves(curves)
        save_figure(figure, folder / "figures", name)
        pictures.append(Picture(figure))
    for name, picture in lesson.pictures.items():
        figure = plot_frames(picture) if isinstance(picture, Frames) else plot_chart(picture)
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
