"""Curves on both scales, and the page of an experiment in learning or with Gaussians."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.comparison.random_matrices import Iteration
from metastable.core.answer import Answer
from metastable.learn.curves import Chart, Curves, Frames
from metastable.report.drawing import write_film
from metastable.report.gaussians import (
    draw_attention_errors,
    draw_distances,
    draw_effective_tokens,
    draw_fit,
    draw_iteration,
    draw_sample_errors,
    draw_spectra,
)
from metastable.report.lesson_pictures import draw_chart, draw_frames, film_frames
from metastable.report.page import Facts, Picture, Section, rows_table, write_page
from metastable.report.style import CATEGORIES, INK, legend, new_figure
from metastable.report.svg import save_figure
from metastable.theory.fits import MatrixFit

__all__ = ["draw_curves", "report_answer"]

GAUSSIAN = {
    "samples": draw_sample_errors,
    "attention": draw_attention_errors,
    "tokens": draw_effective_tokens,
    "spectra": draw_spectra,
    "distances": draw_distances,
}
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


def report_answer(answer: Answer, folder: str | Path) -> Path:
    """Write `report.html`, `figures/` and `result.json` of an answer; return the page's path."""
    folder = Path(folder)
    pictures = []
    for name, figure in answer.figures.items():
        drawn = _draw(name, figure)
        save_figure(drawn, folder / "figures", name)
        pictures.append(Picture(drawn))
        if isinstance(figure, Frames):
            write_film(film_frames(figure), folder / "figures" / f"{name}.gif")
    verdicts = [dataclasses.asdict(row) for row in answer.verdicts]
    tables = {n: v for n, v in answer.facts.items() if isinstance(v, list) and _is_table(v)}
    facts = {name: _shown(v) for name, v in answer.facts.items() if name not in tables}
    page = write_page(
        folder / "report.html",
        answer.sentence,
        Section("Figures", pictures),
        *(Section(name, [rows_table(rows)]) for name, rows in tables.items()),
        Section("Setting and result", [Facts(facts | {"outcome": str(answer.outcome)})]),
        lead=[rows_table(verdicts, "Verdicts")] if verdicts else [],
    )
    text = json.dumps(answer.to_json(), indent=1)
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")
    return page


def _draw(name: str, figure: Any) -> Figure:
    """The picture of a figure, by what it is; those of one Gaussian study go by their names."""
    if isinstance(figure, Curves):
        return draw_curves(figure)
    if isinstance(figure, Frames):
        return draw_frames(figure)
    if isinstance(figure, Chart):
        return draw_chart(figure)
    if isinstance(figure, Iteration):
        return draw_iteration(figure)
    if isinstance(figure, MatrixFit):
        return draw_fit(figure, name)
    return GAUSSIAN[name](figure)


def _is_table(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(row, dict) for row in value)


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    return value
