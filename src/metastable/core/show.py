"""How results show themselves: the one place before `report` that may load it, when asked to."""

from __future__ import annotations

from typing import Any


def print_comparison(comparison: Any) -> None:
    """Print the verdict rows of a comparison as a table on the terminal."""
    from metastable.report import text

    text.print_comparison(comparison)


def print_prediction(prediction: Any) -> None:
    """Print a prediction as a table on the terminal."""
    from metastable.report import text

    text.print_prediction(prediction)


def figure_svg(figure: Any) -> str:
    """A figure as SVG, for a notebook."""
    from metastable.report.svg import inline_svg

    return inline_svg(figure, "figure")


def inspection_html(found: Any) -> str:
    """The answer of an inspection, its picture, and its verdicts folded below, for a notebook."""
    from html import escape

    from metastable.report.figures.overlay import plot_overlay
    from metastable.report.figures.words import plot_groups

    verdicts = found.verdicts
    figure = plot_overlay(found) if hasattr(found, "each") else plot_groups(found.groups)

    rows = "".join(
        f"<tr><td>{escape(row.verdict)}</td><td>{escape(row.claim)}</td>"
        f"<td>{escape(str(row.reason or row.tolerance))}</td></tr>"
        for row in verdicts.rows
    )
    table = f"<details><summary>{escape(repr(verdicts))}</summary><table>{rows}</table></details>"
    return f"<p>{escape(found.sentence)}</p>{figure_svg(figure)}{table if rows else ''}"
