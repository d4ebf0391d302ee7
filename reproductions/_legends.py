"""Legends of figures with more curves than names."""

from __future__ import annotations

from typing import Any

from metastable.report.style import INK

__all__ = ["drop_legends", "legend_below"]


def drop_legends(figure: Any) -> None:
    """Take the names off a figure whose curves are tokens: there are too many to name."""
    for shown in [*figure.legends, *(ax.get_legend() for ax in figure.axes)]:
        if shown is not None:
            shown.remove()


def legend_below(figure: Any) -> None:
    """Move the names from the picture, where they would hide curves, to below it."""
    drop_legends(figure)
    where = {"loc": "outside lower center", "ncols": 2}
    figure.legend(frameon=False, fontsize=8.5, labelcolor=INK, **where)
