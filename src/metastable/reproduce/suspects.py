"""Errors that might flip an entry: what its module uses, and what it was called with.

The simulation comes first: fields, flows, starts, observables, then what the entry's folder shares;
theory comes last, because a wrong theory tests only that two numbers are compared.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from metastable.reproduce.planting import Plant, instead

__all__ = ["Calls", "used_names", "watched"]

ORDER = (
    "fields", "flows", "measures", "observe", "geometry", "learn", "models", "sweep", "comparison",
    "core", "", "theory",
)  # fmt: skip
LEFT_OUT = ("metastable.report", "metastable.reproduce", "metastable.core.verdict",
            "metastable.core.figure", "metastable.core.numerics")  # fmt: skip
# Arguments that may change without a claim changing: another draw is another sample.
HARMLESS = {"seed", "seeds", "key", "frames", "progress", "batch", "source", "rng", "random"}
MOST = 24  # errors tried at most: an entry that hears none of them is too weak


class Calls:
    """What the names of a module were called with: kinds of arguments and of results."""

    def __init__(self) -> None:
        self.arguments: dict[tuple[str, str], str] = {}
        self.results: dict[str, str] = {}

    def suspects(self, names: list[str]) -> list[Plant]:
        """Errors to try, the likeliest first: arguments before results, 1.3 before 0.7 and −1."""
        found: list[Plant] = []
        for how_much in (1.3, 0.7, -1.0):
            for name in names:
                for (owner, argument), kind in self.arguments.items():
                    if owner == name and argument not in HARMLESS:
                        found += _of_argument(name, argument, kind, how_much)
            for name in names:
                if self.results.get(name) == "real":
                    found.append(Plant(name, None, "*", how_much))
        return found[:MOST]


def _of_argument(name: str, argument: str, kind: str, how_much: float) -> list[Plant]:
    if kind == "real":
        return [Plant(name, argument, "*", how_much)]
    if how_much < 1:  # a whole number and a choice have one wrong value each
        return []
    if kind == "whole":
        return [Plant(name, argument, "+", 1)]
    return [Plant(name, argument, "=", kind != "true")] if kind in ("true", "false") else []


def used_names(file: Path) -> list[str]:
    """Names an entry imports from the library and from its folder, simulation first."""
    ranked: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or f"{node.module}".startswith(LEFT_OUT):
            continue
        parts = (node.module or "").split(".")
        if node.level or parts[0] == "metastable":
            package = "" if node.level or len(parts) < 2 else parts[1]
            rank = ORDER.index(package) if package in ORDER else len(ORDER)
            ranked += [(rank, alias.asname or alias.name) for alias in node.names]
    return [name for _, name in sorted(ranked, key=lambda one: one[0])]


@contextmanager
def watched(module: ModuleType, names: list[str]) -> Iterator[Calls]:
    """Note what these names of a module are called with until the block is left."""
    calls = Calls()
    right = {name: getattr(module, name, None) for name in names}
    functions = {name: one for name, one in right.items() if _can_be_watched(one)}
    for name, function in functions.items():
        setattr(module, name, _noting(function, name, calls))
    try:
        yield calls
    finally:
        for name, function in functions.items():
            setattr(module, name, function)


def _can_be_watched(one: Any) -> bool:
    try:
        return callable(one) and bool(inspect.signature(one))
    except (TypeError, ValueError):
        return False


def _noting(right: Any, name: str, calls: Calls) -> Any:
    signature = inspect.signature(right)

    def noted(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return right(*args, **kwargs)
        bound.apply_defaults()
        for argument, value in bound.arguments.items():
            if kind := _kind(value):
                calls.arguments.setdefault((name, argument), kind)
        result = right(*args, **kwargs)
        if kind := _kind(result):
            calls.results.setdefault(name, kind)
        return result

    return instead(right, noted)


def _kind(value: Any) -> str:
    """What an error may do to a value: "true", "false", "whole", "real"; nothing to others."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return "whole"
    if isinstance(value, tuple | list):
        return "real" if "real" in map(_kind, value) else ""
    dtype = getattr(value, "dtype", None)
    numbers = dtype is not None and getattr(dtype, "kind", "O") in "fc"
    return "real" if numbers or isinstance(value, float | complex) else ""
