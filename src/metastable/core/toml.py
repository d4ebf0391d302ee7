"""TOML read and written, with errors of one line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

DEEPEST = 32  # tables and lists inside each other; a spec has fewer than ten
_DOTTED = re.compile(r"(?:[\w-]+[ \t]*\.[ \t]*){500}")  # a key of so many parts


def read_toml(path: str | Path, name: str = "SPEC") -> dict[str, Any]:
    """The tree of a file, called `name` in errors, each a `ValueError` of one line."""
    deep = f"{name} must hold tables and lists at most {DEEPEST} deep; {path} goes deeper."
    try:
        # Editors of Windows put a byte order mark first; utf-8-sig reads with and without.
        text = Path(path).read_text(encoding="utf-8-sig")
        # The reader takes time in the square of the dots in a key.
        tree = None if _DOTTED.search(text) else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} must be a readable TOML file; got {path} ({error}).") from None
    except RecursionError:
        raise ValueError(deep) from None
    except ValueError as error:  # of TOML, and of integers too long for Python
        raise ValueError(f"{name} must be valid TOML; {path}: {error}.") from None
    if tree is None or _depth_exceeds(tree, DEEPEST):
        raise ValueError(deep)
    return tree


def to_toml(tree: dict[str, Any]) -> str:
    """Write a tree of plain values as TOML: plain keys, then tables, their values inline.

    Inside a table keys keep their order, which is that of the axes of a sweep; tomli-w alone would
    put its tables last.
    """
    tables = {key: value for key, value in tree.items() if isinstance(value, dict)}
    try:
        lines = [_line(key, value) for key, value in tree.items() if key not in tables]
        for key, table in tables.items():
            head = tomli_w.dumps({key: {}}).strip()
            lines += ["", head, *(_line(name, value) for name, value in table.items())]
    except TypeError as error:  # None inside a list: TOML has no word for it
        raise ValueError(f"a spec must hold what TOML can write; {error}: leave it out.") from None
    return "\n".join(lines).lstrip("\n") + "\n"


def _line(key: str, value: Any) -> str:
    """`key = value`: tomli-w writes tables inline in a list that holds a number too.

    Line breaks stand between the values of a list only, since those of strings are escaped.
    """
    name = tomli_w.dumps({key: 0}).removesuffix(" = 0\n")
    text = tomli_w.dumps({"v": [value, 0]}).removeprefix("v = [\n").removesuffix(",\n    0,\n]\n")
    text = _NUMBERS.sub(lambda match: f"[{_joined(match[1])}]", text).replace("\n    ", "\n")
    return f"{name} = {text.strip()}"


# tomli-w gives every number of a list a line of its own. Strings cannot match: theirs are quoted,
# and on one line.
_NUMBERS = re.compile(r"\[\n((?: +[\w.+-]+,\n)+) *\]")


def _joined(lines: str) -> str:
    return " ".join(lines.split()).removesuffix(",")


def _depth_exceeds(tree: dict[str, Any], limit: int) -> bool:
    """Whether some value lies inside more than `limit` tables and lists; without recursion."""
    level: list[Any] = [tree]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
