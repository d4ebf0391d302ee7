"""Entries in files of their own: what stands outside `reproductions/` is loaded as it lies."""

from __future__ import annotations

import hashlib
import sys
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType

from metastable.core.errors import did_you_mean
from metastable.reproduce.catalogue import files, load_module, read_entry
from metastable.reproduce.entry import Entry

__all__ = ["Contributed", "find_contributed"]


class Contributed:
    """The file of an entry; its data and its module are read when they are asked for."""

    def __init__(self, file: Path):
        self.file, self.name, self.source = file, file.stem, file.parent.name
        known = files().get(self.name)
        self.inside = known is not None and known.resolve() == file.resolve()

    @cached_property
    def entry(self) -> Entry:
        try:
            return read_entry(self.file)
        except SyntaxError as error:
            raise ValueError(f"{self.file.name} must be Python: {error}") from None

    @cached_property
    def module(self) -> ModuleType:
        """The module; its folder is the package that relative imports start from."""
        if self.inside:
            return load_module(f"{self.source}.{self.name}")
        above = self.file.resolve().parent.parent
        package = "contributed_" + hashlib.sha256(str(above).encode()).hexdigest()[:12]
        if package not in sys.modules:
            sys.modules[package] = ModuleType(package)
            sys.modules[package].__path__ = [str(above)]
        return import_module(f"{package}.{self.source}.{self.name}")

    def text(self) -> str:
        """The code that the work depends on: the file, and what entries of its folder share."""
        shared = sorted(self.file.parent.glob("_*.py"))
        return "".join(each.read_text(encoding="utf-8") for each in (self.file, *shared))


def find_contributed(asked: str) -> list[Contributed]:
    """The entry of a file, or those of a name, of a source, or "all"."""
    if asked.endswith(".py"):
        if not Path(asked).is_file():
            raise ValueError(f"FILE must be an entry's file; {asked} is not there.")
        return [Contributed(Path(asked).resolve())]
    every = files()
    found = [file for name, file in every.items() if asked in (name, file.parent.name, "all")]
    if not found:
        near = did_you_mean(asked, every) or "see `metastable reproduce --list`."
        raise ValueError(f"NAME must be an entry, its file, a source or all; got {asked!r}: {near}")
    return [Contributed(file) for file in found]
