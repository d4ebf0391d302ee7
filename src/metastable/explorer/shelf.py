"""Runs of this session on disk: a folder each, the oldest forgotten first."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from metastable.explorer.limits import Refused


@dataclass
class Shelved:
    """One run: its folder with the recording and the result; complete once `ended`."""

    name: str
    folder: Path
    ended: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # of whoever adds to the folder

    @property
    def recording(self) -> Path:
        return self.folder / "run.msr"

    @property
    def result(self) -> Path:
        return self.folder / "result"


class Shelf:
    """At most `most` runs; their names cannot be guessed."""

    def __init__(self, most: int = 8):
        self.root: Path  # known once the server runs
        self.most = most
        self.runs: dict[str, Shelved] = {}

    def new(self) -> Shelved:
        name = secrets.token_urlsafe(12)
        folder = self.root / name
        folder.mkdir()
        self.runs[name] = Shelved(name, folder)
        return self.runs[name]

    def tidy(self) -> None:
        """Forget the oldest runs beyond the most."""
        while len(self.runs) > self.most:
            self.drop(next(iter(self.runs)))

    def drop(self, name: str) -> None:
        gone = self.runs.pop(name, None)
        if gone is not None:
            shutil.rmtree(gone.folder, ignore_errors=True)

    def find(self, name: str) -> Shelved:
        """A finished run, by name."""
        run = self.runs.get(name)
        if run is None:
            raise Refused("This run is not kept any more: start it again.")
        if not run.ended:
            raise Refused("This run has not ended yet: wait for it, or stop it.")
        return run
