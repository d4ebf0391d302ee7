"""Complaints about a spec, as one line each: key, requirement, value received."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

__all__ = ["one_line"]


def one_line(error: ValidationError) -> str:
    """The first complaint of a validation, as argument, requirement and value received."""
    first = _most_telling(error.errors(include_url=False))
    # The discriminated unions add the kind to the path; people never wrote it there.
    last = len(first["loc"]) - 1
    where = ".".join(
        str(part) for k, part in enumerate(first["loc"]) if not _is_tag(part, last=k == last)
    )
    kind, given = first["type"], first["input"]
    if kind == "extra_forbidden":
        return f"unknown key {where}; got {given!r}: remove it or check its spelling."
    if kind == "missing":
        return f"{where} is required; got nothing: add it."
    requirement = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if kind == "union_tag_invalid":
        context = first.get("ctx", {})
        where, given = f"{where}.kind", context.get("tag")
        requirement = f"must be one of {context.get('expected_tags')}"
    elif kind == "union_tag_not_found":
        where, requirement = f"{where}.kind", "must say which kind is meant"
    value = repr(given)
    return f"{where} {requirement}; got {value if len(value) <= 60 else value[:57] + '...'}."


_TAGS = frozenset(
    "uniform orthogonal von_mises_fisher planted caps polygon simplex gaussian_points tokens "
    "density_mode density_von_mises_fisher density_of_tokens rope "
    "alibi window self_attention l2_attention sinkhorn_attention multi_head kuramoto krause "
    "potential feed_forward noise block gain rescaled piecewise adaptive euler layers geodesic "
    "one many spirals digits".split()
)


def _is_tag(part: Any, *, last: bool) -> bool:
    """Whether a part of a location names a form of the value, not a key of the spec."""
    if not isinstance(part, str):
        return False
    return part in ("float", "Draw") or "[" in part or (part in _TAGS and not last)


def _most_telling(complaints: list[Any]) -> Any:
    """Where a value may have several forms, the complaint of the form it nearly had."""
    first = complaints[0]
    if isinstance(first["input"], dict):
        near = [c for c in complaints if "Draw" in c["loc"]]
    elif isinstance(first["input"], list):
        near = [c for c in complaints if c["type"] == "value_error"]
    else:
        near = []
    return near[0] if near else first
