"""Numbers and places of a sweep, in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# Of axes, in a sentence.
NAMES = {"beta": "β", "kappa": "κ", "dim": "d", "tokens": "n", "time": "t"}


def name_of(dim: str) -> str:
    """An axis, as in "depends on β"."""
    return NAMES.get(dim, dim.replace("_", " "))


def located(dim: str, place: Any) -> str:
    """A place on an axis.

    >>> located("beta", 9.0), located("start", "even")
    ('β = 9', 'start = even')
    """
    shown = f"{place:.4g}" if isinstance(place, float | np.floating) else str(place)
    return f"{name_of(dim)} = {shown}"


def rounded(value: float, error: float = math.nan) -> str:
    """A number to the digit that its error leaves, with the error.

    >>> rounded(12.345, 0.21), rounded(1234.5), rounded(0.5, 0.0), rounded(4321.0, 57.0)
    ('12.3 ± 0.2', '1.23e+03', '0.5', '4320 ± 60')
    """
    if not error > 0 or not math.isfinite(error):
        return f"{value:.3g}"
    error = float(f"{error:.1g}")
    if not 1e-4 <= max(abs(value), error) < 1e6:
        return f"{value:.3g} ± {error:.1g}"
    place = -math.floor(math.log10(error))
    digits = max(place, 0)
    return f"{round(value, place):.{digits}f} ± {error:.{digits}f}"
