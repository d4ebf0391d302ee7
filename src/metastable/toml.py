"""TOML: written by us, read by the standard library, with complaints of one line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

__all__ = ["read_toml", "to_toml"]


def read_toml(path: str | Path, name: str = "SPEC") -> dict[str, Any]:
    """The tree of a file, called `name` in complaints, which are a `ValueError` of one line."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} must be a readable TOML file; got {path} ({error}).") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} must be valid TOML; {path}: {error}.") from None


def to_toml(tree: dict[str, Any]) -> str:
    """Write a tree of plain values as TOML; nested tables inside arrays become inline tables."""
    scalars = {k: v for k, v in tree.items() if not isinstance(v, dict)}
    tables = {k: v for k, v in tree.items() if isinstance(v, dict)}
    lines = [f"{k} = {_inline(v)}" for k, v in scalars.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]"] + [f"{k} = {_inline(v)}" for k, v in table.items()]
    return "\n".join(lines).lstrip("\n") + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
