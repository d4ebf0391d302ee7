"""Public names of a package, imported on first use."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str], *, parts: str = "", extra: str = "", owner: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and the sorted public names for a package's `__init__`.

    - `homes`: module below the package → the names it holds, separated by blanks.
    - `parts`: subpackages that are attributes too, without being public names.
    - `extra`: the extra of pyproject.toml that brings the third-party modules these names need.

    >>> lazy("metastable.report", {"svg": "save_figure", "drawing": "write_film"})[2]
    ['save_figure', 'write_film']
    """
    home = {name: module for module, names in homes.items() for name in names.split()}
    package, prefix = owner or package, f"{package}." if package else ""

    def look_up(name: str) -> Any:
        if name in parts.split():
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(prefix + home[name])
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
        # A module that was loaded on the way stands in the place of a name that it shares.
        for other, place in home.items():
            if place.rpartition(".")[2] == other and prefix + place in sys.modules:
                loaded = sys.modules[prefix + place]
                setattr(sys.modules[package], other, getattr(loaded, other, loaded))
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


def attach(
    package: str, file: str, *, registry: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """As `lazy`, with the names that `__init__.pyi` beside `file` lists, a line each.

    `registry`: the index of kinds in the package's `spec` whose classes are attributes as well.
    """
    lines = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes: dict[str, str] = {}
    for module, name in re.findall(r"^from (\S+\.\S+) import (\w+) as \2$", lines, re.M):
        homes[module] = f"{homes.get(module, '')} {name}"
    parts = re.findall(rf"^from {package} import (\w+) as \1$", lines, re.M)
    look_up, names, listed = lazy("", homes, parts=" ".join(parts), owner=package)

    def look_further(name: str) -> Any:
        try:
            return look_up(name)
        except AttributeError:
            if not registry or name.startswith("_"):
                raise
            indexed = getattr(import_module(f"{package}.spec"), registry).homes
            if name not in indexed:
                raise
            value = getattr(import_module(indexed[name]), name)
            setattr(sys.modules[package], name, value)  # a module of that name would hide it
            return value

    return look_further if registry else look_up, names, listed
