"""Perform the entries of `reproductions/`: what was published, made again, with a verdict."""

from __future__ import annotations

from metastable.reproduce.catalogue import load_module, sources
from metastable.reproduce.entry import Entry

__all__ = ["Entry", "load_module", "sources"]
