"""Entries in files of their own: what stands outside `reproductions/` is loaded as it lies."""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from metastable.reproduce.catalogue import catalogue, file_of, load_module, read_entry
from metastable.reproduce.entry import Entry

__all__ = ["Contributed", "find_contributed"]


class Contributed:
    """An entry, its file, and its module once it is asked for."""

    def __init__(self, entry: Entry, file: Path, inside: bool):
        self.entry, self.file, self.inside = entry, file, inside

    def load(self) -> ModuleType:
        """The module; its folder is the package that relative imports start from."""
        if self.inside:
            return load_module(f"{self.entry.source}.{self.entry.name}")
        above = self.file.parent.parent
        package = "contributed_" + hashlib.sha256(str(above).encode()).hexdigest()[:12]
        if package not in sys.modules:
            sys.modules[package] = ModuleType(package)
            sys.modules[package].__path__ = [str(above)]
        return import_module(f"{package}.{self.entry.source}.{self.entry.name}")

    def text(self) -> str:
        """The code that the work depends on: the file, and what entries of its folder share."""
        shared = sorted(self.file.parent.glob("_*.py"))
        return "".join(each.read_text(encoding="utf-8") for each in (self.file, *shared))


def find_contributed(asked: str) -> list[Contributed]:
    """The entries of a file, or of a name, a source or "all"; a file must hold a valid one."""
    from metastable.reproduce.run import choose

    path = Path(asked)
    if path.suffix != ".py":
        return [Contributed(entry, file_of(entry), True) for entry in choose([asked])]
    if not path.is_file():
        raise ValueError(f"FILE must be an entry's file; {asked} is not there.")
    path = path.resolve()
    try:
        entry = read_entry(path)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} must be Python: {error}") from None
    known = catalogue().get(entry.name)
    return [Contributed(entry, path, known is not None and file_of(known).resolve() == path)]
