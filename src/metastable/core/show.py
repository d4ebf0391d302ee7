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
