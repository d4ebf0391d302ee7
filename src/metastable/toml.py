"""Writing TOML; reading it is in the standard library."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["to_toml"]


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
