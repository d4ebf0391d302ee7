"""How results show themselves: the one place that may load what comes later, when asked to."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Shown:
    """What shows itself: short, with a picture, in a notebook; as a page of its own elsewhere."""

    def _repr_html_(self) -> str | None:
        return html(self)

    def show(self) -> None:
        """Show this in a notebook; elsewhere write it to a page and print the path."""
        show(self)


def html(value: Any) -> str | None:
    """A result, a measure or a film for a notebook; None while JAX traces it."""
    from metastable.report.notebook import html_of

    return html_of(value)


def show(value: Any) -> None:
    """Display a value in a notebook; elsewhere write a page, print its path, and open it."""
    from metastable.report.notebook import show_value

    show_value(value)


def draw_figure(figure: Any, ax: Any = None, *, size: Any = None, style: str | None = None) -> Any:
    """A figure drawn by matplotlib."""
    from metastable.report.drawing import draw

    return draw(figure, ax, size=size, style=style)


def save_picture(figure: Any, path: str | Path, *, size: Any, style: str | None) -> Path:
    """Write a figure into one file, of the kind that its name ends in."""
    from metastable.report.svg import save_picture

    return save_picture(figure, path, size=size, style=style)


def keep_result(result: Any, folder: str | Path) -> Any:
    """Keep a result in a folder of its own, with its page."""
    from metastable.kinds import keep

    return keep(result, folder)


def keep_found(spec: Any, found: Any, folder: str | Path) -> Any:
    """Keep what the work of a spec gave, with the figures of its kind."""
    from metastable.kinds import finished, keep

    return keep(finished(spec, found), folder)


def observables(run: Any, own: dict[str, Any]) -> Any:
    """The observables of every frame of a run, as an xarray dataset."""
    from metastable.observe.table import observables

    return observables(run, own)


def table(result: Any) -> Any:
    """The main table of a result, for pandas."""
    from metastable.report.notebook import table_of

    return table_of(result)


def print_comparison(comparison: Any) -> None:
    """Print the verdict rows of a comparison as a table on the terminal."""
    from metastable.report import text

    text.print_comparison(comparison)


def print_prediction(prediction: Any) -> None:
    """Print a prediction as a table on the terminal."""
    from metastable.report import text

    text.print_prediction(prediction)
