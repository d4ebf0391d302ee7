"""Checks of arguments: one sentence each, naming argument, requirement, value and remedy."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from metastable.core.numerics import is_traced


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def real(name: str, value: Any, requirement: str = "a finite real number") -> Any:
    """A finite scalar; traced values pass unchecked."""
    if is_traced(value):
        return value
    array = np.asarray(value) if not isinstance(value, bool | str) else np.asarray(None)
    if array.ndim != 0 or array.dtype.kind not in "iuf" or not np.isfinite(array):
        raise ValueError(f"{name} must be {requirement}; got {_shown(value)}.")
    return value


def nonnegative(name: str, value: Any, remedy: str = "") -> Any:
    return _above(name, value, ">= 0", float.__ge__, remedy)


def positive(name: str, value: Any, remedy: str = "") -> Any:
    return _above(name, value, "> 0", float.__gt__, remedy)


def _above(name: str, value: Any, need: str, holds: Any, remedy: str) -> Any:
    real(name, value, f"a finite number {need}")
    if not is_traced(value) and not holds(float(value), 0.0):
        raise ValueError(f"{name} must be {need}; got {_shown(value)}.{_hint(remedy)}")
    return value


def plain_number(value: Any) -> Any:
    """The Python number of a NumPy scalar; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def seed(value: Any) -> int:
    """A seed of random numbers: an integer from 0 below 2^63."""
    if integer("seed", value, 0) >= 2**63:
        raise ValueError(f"seed must be below 2^63; got {_shown(value)}.")
    return int(value)


def instance(name: str, value: Any, kind: type | tuple[type, ...], need: str) -> Any:
    """An object of the right class; a class itself is the usual mistake."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {need}; got {_shown(value)}.")
    return value


def defined_for(name: str, measure: Any, *sorts: type) -> None:
    """Refuse a measure of another sort than those that the observable `name` is defined for."""
    if not isinstance(measure, sorts):
        wanted, got = " or ".join(sort.__name__ for sort in sorts), type(measure).__name__
        remedy = "draw tokens from it with sample(n)" if wanted == "Points" else f"give {wanted}"
        raise ValueError(f"{name} is defined for {wanted}; got {got}: {remedy}.")


def function(name: str, value: Any, need: str) -> Any:
    if not callable(value):
        raise ValueError(f"{name} must be {need}; got {_shown(value)}.")
    return value


def integer(name: str, value: Any, least: int, remedy: str = "") -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(
            f"{name} must be an integer >= {least}; got {_shown(value)}.{_hint(remedy)}"
        )
    return int(value)


def finite_array(name: str, value: Any, ndim: int) -> None:
    """Real numbers with the right number of axes, no empty axis, no NaN, no infinity."""
    try:
        shape = np.shape(value)
    except ValueError:
        raise ValueError(f"{name} must have rows of one length; got {_shown(value)}.") from None
    if not is_traced(value) and np.asarray(value).dtype.kind not in "iufb":
        raise ValueError(f"{name} must hold real numbers; got {_shown(value)}.")
    if len(shape) != ndim or 0 in shape:
        raise ValueError(f"{name} must be an array with {ndim} non-empty axes; got shape {shape}.")
    if not is_traced(value) and not np.isfinite(np.asarray(value)).all():
        row = int(np.argwhere(~np.isfinite(np.asarray(value)))[0][0])
        raise ValueError(
            f"{name} must be finite; got NaN or infinity first at row {row}: drop or repair it."
        )


def square(name: str, value: Any, dim: int) -> None:
    if np.shape(value) != (dim, dim):
        raise ValueError(
            f"{name} must be a {dim} x {dim} matrix to act on tokens of dimension {dim}; "
            f"got shape {np.shape(value)}."
        )


def fits_memory(what: str, numbers: float, remedy: str) -> None:
    """Refuse work that needs more than the memory of this machine, before it starts."""
    need = 8.0 * numbers
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > 0.9 * have:
        raise ValueError(
            f"{what} needs about {in_bytes(need)}, and this machine has {in_bytes(have)}: {remedy}."
        )


def in_bytes(count: float, digits: str = ".1f") -> str:
    """A number of bytes in the largest unit that it fills, such as 1.5 GiB."""
    units = "B KiB MiB GiB TiB PiB EiB ZiB YiB".split()
    power = min(int(math.log(max(count, 1.0), 1024)), len(units) - 1)
    return f"{count / 1024**power:{digits}} {units[power]}"


def _hint(remedy: str) -> str:
    return f" {remedy}" if remedy else ""
