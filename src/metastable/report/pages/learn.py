"""The page of a learning experiment: losses on both scales, facts, outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from metastable.core.figure import Figure
from metastable.learn.lesson import Frames, Lesson
from metastable.report.drawing import write_film
from metastable.report.figures.learning import film_frames, plot_chart, plot_curves, plot_frames
from metastable.report.page import page

__all__ = ["report_lesson"]


def report_lesson(lesson: Lesson, folder: str | Path) -> Path:
    """Write `report.html`, `figures/` and `result.json` of a lesson; return the page's path."""
    folder = Path(folder)
    figures: dict[str, Figure] = {}
    for name, curves in lesson.curves.items():
        figures[name] = plot_curves(curves)
    for name, picture in lesson.pictures.items():
        if isinstance(picture, Frames):
            figures[name] = plot_frames(picture)
            write_film(film_frames(picture), folder / "figures" / f"{name}.gif")
        else:
            figures[name] = plot_chart(picture)
    path = page(
        folder / "report.html",
        f"Learning: {lesson.name}",
        sentence=str(lesson.outcome),
        facts={name: _shown(value) for name, value in lesson.facts.items()},
        figures=figures,
    )
    (folder / "result.json").write_text(json.dumps(lesson.to_json(), indent=1) + "\n")
    return path


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    return value
