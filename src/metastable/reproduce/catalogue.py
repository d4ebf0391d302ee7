"""The folder of reproductions: its entries, read without importing them, and its modules."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from metastable.core.errors import one_line
from metastable.core.reproductions import PACKAGE, home
from metastable.reproduce.entry import Entry

if TYPE_CHECKING:
    from metastable.reproduce.finding import Finding


def sources() -> dict[str, str]:
    """Title of every source by the name of its folder, in the order of the names."""
    files = sorted(home().glob("*/__init__.py"))
    return {file.parent.name: ast.literal_eval(_assigned(file, "TITLE")) for file in files}


def catalogue() -> dict[str, Entry]:
    """All entries by name, source by source."""
    entries: dict[str, Entry] = {}
    for source in sources():
        for file in sorted((home() / source).glob("[!_]*.py")):
            entry = read_entry(file)
            if entry.name in entries:
                both = f"{entries[entry.name].source} and in {source}"
                message = f"names of entries must differ; got {entry.name} in {both}: rename one."
                raise ValueError(message)
            entries[entry.name] = entry
    return entries


def read_entry(file: Path) -> Entry:
    """The entry of a file, from its literal `ENTRY = Entry(…)`; importing all takes seconds."""
    call = _assigned(file, "ENTRY")
    try:
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError
        tree = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except ValueError:
        message = f"{file.name}: ENTRY must be Entry(…) with literal keyword arguments."
        raise ValueError(message) from None
    try:
        return Entry.model_validate({**tree, "source": file.parent.name, "name": file.stem})
    except ValidationError as error:
        raise ValueError(f"{file.name}: {one_line(error)}") from None


def load_module(name: str) -> ModuleType:
    """A module of the reproductions, wherever they lie, as "ponti2025._sigmoid_network"."""
    place = home()
    if PACKAGE not in sys.modules:
        file, inside = place / "__init__.py", [str(place)]
        spec = spec_from_file_location(PACKAGE, file, submodule_search_locations=inside)
        assert spec is not None and spec.loader is not None
        sys.modules[PACKAGE] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[PACKAGE])
    places = [Path(each).resolve() for each in sys.modules[PACKAGE].__path__]
    if place not in places:
        raise ValueError(
            f"{PACKAGE} must be the package at {place}; got the one at {places[0]}: import "
            "metastable.reproduce in a process of its own."
        )
    return import_module(f"{PACKAGE}.{name}")


def files() -> dict[str, Path]:
    """Where each entry stands, by its name; no file is read."""
    return {file.stem: file for file in sorted(home().glob("[!_]*/[!_]*.py"))}


def key_of(source: str) -> str:
    """The key of a source in the bibliography; empty where its `__init__.py` has none."""
    return read_text(home() / source / "__init__.py", "KEY")


def page_of(source: str) -> str:
    """What the docstring of a source says of it."""
    text = (home() / source / "__init__.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(text)) or ""


def read_text(file: Path, name: str) -> str:
    """The literal text that a module assigns to a name, or nothing."""
    try:
        return str(ast.literal_eval(_assigned(file, name)))
    except ValueError:
        return ""


def function_of(entry: Entry) -> Callable[..., Finding]:
    """The function that does the work; its arguments are the entry's settings."""
    return function_in(load_module(f"{entry.source}.{entry.name}"), entry)


def function_in(module: ModuleType, entry: Entry) -> Callable[..., Finding]:
    """The function of an entry in its module, which must take the settings."""
    function: Any = getattr(module, entry.name, None)
    if function is None:
        raise ValueError(f"{entry.name}.py must define {entry.name}(); it has no such function.")
    try:
        inspect.signature(function).bind(**entry.arguments(fast=False))
    except TypeError as error:
        message = f"{entry.name}.py: settings must be the arguments of {entry.name}(): {error}."
        raise ValueError(message) from None
    return function


def _assigned(file: Path, name: str) -> ast.expr:
    """The expression that a module assigns to a name at its top level."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(each) for each in node.targets] == [name]:
            return node.value
    raise ValueError(f"{file.parent.name}/{file.name} must assign {name}; it does not.")
