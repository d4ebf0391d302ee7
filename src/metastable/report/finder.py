"""Parts of a page with many claims: a search box, folded claims, and the sources they come from."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, ClassVar

from markupsafe import Markup

__all__ = ["Claims", "Finder", "Library", "script_of"]


@dataclass(frozen=True)
class Finder:
    """A search box and one list of choices a name; without a script the page shows everything.

    `choices`: what claims are filtered by, a name of `Claims.marks` each, and its values.
    """

    kind: ClassVar[str] = "finder"
    count: int
    choices: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Claims:
    """Claims, each folded under its verdict and title.

    A claim is a mapping: `name`, `title`, `verdict`, `places`, `source` and its `document`, `marks`
    (what filters see), `paragraphs` (name, text), `links` (name, then (title, address) pairs),
    `command`, and `page`, the address of its own page or nothing.
    """

    kind: ClassVar[str] = "claims"
    claims: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Library:
    """Sources: `name`, `title`, `text`, `address` and its `claims` as (title, address) pairs."""

    kind: ClassVar[str] = "library"
    sources: Sequence[Mapping[str, Any]]


def script_of(blocks: Sequence[Any]) -> tuple[Markup, str]:
    """The script a page with these blocks needs, and the words that allow it and no other."""
    if not any(isinstance(block, Finder) for block in blocks):
        return Markup(), ""
    text = files("metastable.report").joinpath("templates/finder.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f" script-src 'sha256-{digest}';"
