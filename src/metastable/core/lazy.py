"""Public names of a package, imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str], *, parts: str = "", extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and the sorted public names for a package's `__init__`.

    - `homes`: module below the package → the names it holds, separated by blanks.
    - `parts`: subpackages that are attributes too, without being public names.
    - `extra`: the extra of pyproject.toml that brings the third-party modules these names need.

    >>> lazy("metastable.report", {"svg": "save_figure", "drawing": "write_film"})[2]
    ['save_figure', 'write_film']
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def look_up(name: str) -> Any:
        if name in parts.split():
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(f"{package}.{home[name]}")
        except ModuleNotFoundError as error:
            if not extra or (error.name or "").startswith("metastable"):
                raise
            raise ModuleNotFoundError(
                f"{package}.{name} needs {error.name}: install the extra [{extra}], "
                "as README says.",
                name=error.name,
            ) from None
        value = getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*home, *parts.split(), *vars(sys.modules[package]).get("__all__", ())})

    return look_up, names, sorted(home)


def public(names: Mapping[str, Any]) -> list[str]:
    """The public names of a package that imports them one by one, given its `vars()`."""
    return sorted(
        name
        for name, value in names.items()
        if getattr(value, "__module__", "").startswith(f"{names['__name__']}.")
    )


def registered(name: str, package: str, homes: Mapping[str, str]) -> Any:
    """What a package does not hold itself but its registry names; else AttributeError."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)
