"""Which observables have a meaning for which sort of measure."""

from __future__ import annotations

from typing import Any


def only(name: str, measure: Any, *sorts: type) -> None:
    """Refuse a measure of another sort than those an observable is defined for."""
    if isinstance(measure, sorts):
        return
    wanted = " or ".join(sort.__name__ for sort in sorts)
    got = type(measure).__name__
    remedy = "draw tokens from it with sample(n)" if wanted == "Points" else f"give {wanted}"
    raise ValueError(f"{name} is defined for {wanted}; got {got}: {remedy}.")
