"""Odd values, and TOML that holds them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

__all__ = ["HUGE", "ODD", "WORDS", "Raw", "as_option", "is_huge", "toml_text"]


class Raw(str):
    """Text that stands in TOML as it is."""


HUGE = 10**6  # above this a count is a huge one
ODD: list[Any] = [
    0, -1, 1, 2, 0.0, -0.0, 0.5, 1e308, -1e308, math.nan, math.inf, -math.inf, 10**400, -(10**400),
    5e-324, 1e-300, 2**31, 2**63, 2**64, -(2**63), 1e16, 1e9, True, False, "", " ", "x" * 10000,
    "none", "end", "auto", "nan", "-1", "uniform", "é\u202e∞", "\u0000", "\n", "../x",
    "/etc/passwd", "/dev/null", "<b>&amp;", [], [[]], [0], [1.0, math.nan], [[1.0], [1.0, 2.0]],
    ["a"], {}, {"kind": "nonsense"}, {"from": 1, "to": 0, "count": 2**40}, {"a": {"a": {"a": {}}}},
    {"draw": "gaussian", "seed": 10**400}, Raw("1979-05-27T07:32:00Z"), Raw("0x7fffffffffffffff"),
]  # fmt: skip
WORDS = ["beta", "kind", "x", "", "tokens", "seed", "__class__", "a.b", "é", "x" * 300, "0"]


def is_huge(value: Any) -> bool:
    """Whether a value, or a text that stands for one, is a huge number."""
    try:
        return not isinstance(value, bool) and not float(str(value)) < HUGE
    except ValueError:
        return False
    except OverflowError:
        return True


def as_option(value: Any) -> str:
    """A value as it would be typed; a NUL cannot be."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("\0", "\x01")


def toml_text(tree: dict[str, Any]) -> str:
    """A tree as TOML: scalars first, then one section for each table, all else inline."""
    plain = {k: v for k, v in tree.items() if not isinstance(v, dict)}
    lines = [f"{_key(k)} = {_inline(v)}" for k, v in plain.items()]
    for name, table in tree.items():
        if isinstance(table, dict):
            lines += [f"[{_key(name)}]", *(f"{_key(k)} = {_inline(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _inline(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, repr(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(v) for v in value) + "]"
    return json.dumps(value).replace("\x7f", "\\u007f")
