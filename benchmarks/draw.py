"""Figures of the benchmarks: log-log, one color per method, the machine in the title."""

from __future__ import annotations

from pathlib import Path

__all__ = ["costs", "lines"]


def costs(result: dict, path: Path, title: str) -> None:
    """Seconds against tokens, one panel per β."""
    betas = sorted({row["beta"] for row in result["rows"]})
    panels = {
        f"β = {beta:g}": [
            # Peers were run once: their cost does not depend on β.
            row | {"x": row["n"], "y": row["seconds"]}
            for row in result["rows"]
            if row["beta"] == beta or row["relative_error"] is None
        ]
        for beta in betas
    }
    lines(panels, path, title, "tokens n", "seconds per field evaluation", result["machine"])


def lines(
    panels: dict[str, list[dict]], path: Path, title: str, xlabel: str, ylabel: str, machine: str
) -> None:
    """Log-log lines; rows carry "method", "x" and "y"."""
    from metastable.core.figure import Axis, Lines, Panels, Series
    from metastable.report import draw

    methods = list(dict.fromkeys(row["method"] for rows in panels.values() for row in rows))
    values = [row["y"] for rows in panels.values() for row in rows]
    limits = (0.8 * min(values), 1.25 * max(values))
    figures = []
    for name, rows in panels.items():
        series = []
        for group, method in enumerate(methods):
            points = sorted((r["x"], r["y"]) for r in rows if r["method"] == method)
            if points:
                x, y = zip(*points, strict=True)
                series.append(Series(method, x, y, style="both", group=group))
        axes = Axis(xlabel, scale="log"), Axis(ylabel, scale="log", limits=limits)
        figures.append(Lines(*axes, series, title=name))
    size = (2.5 + 4 * len(panels), 4.6)
    picture = draw(Panels(figures, len(figures), shared=True, size=size))
    picture.suptitle(f"{title} ({machine})", fontsize=10)
    picture.savefig(path, dpi=160, facecolor="white")
