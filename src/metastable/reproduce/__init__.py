"""Every figure, table and theorem of the source documents, made again, with a verdict."""

from __future__ import annotations

from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.perform import perform
from metastable.reproduce.run import choose, reproduce

__all__ = ["Finding", "choose", "holds", "perform", "reproduce"]
