"""One reproduction as a spec: which entry, at which size, with which settings changed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from metastable.core.spec import Spec
from metastable.reproduce.catalogue import catalogue
from metastable.reproduce.entry import Entry


class Reproduction(Spec):
    """An entry of `metastable reproduce --list`; `settings` replace those of its file."""

    kind: Literal["reproduction"] = "reproduction"
    entry: str
    fast: bool = False
    settings: dict[str, Any] = Field(default_factory=dict)

    def find(self) -> Entry:
        """The entry of that name, with its settings changed."""
        entries = catalogue()
        if self.entry not in entries:
            message = f"entry must be one of `metastable reproduce --list`; got {self.entry!r}."
            raise ValueError(message)
        return entries[self.entry].changed(self.settings)

    @property
    def digest(self) -> str:
        """Fingerprint of the work, the size included."""
        return self.find().digest(self.fast)
