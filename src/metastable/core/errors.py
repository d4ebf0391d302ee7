"""Errors of a spec, as one line each: key, requirement, value received."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

from pydantic import ValidationError


def one_line(error: ValidationError) -> str:
    """The first error of a validation, as argument, requirement and value received."""
    first = _most_telling(error.errors(include_url=False))
    # The discriminated unions add the kind to the path; people never wrote it there.
    kind, given = first["type"], first["input"]
    # A key may be called like a kind (`tokens`): the last part is one, unless the kind is at fault.
    last = -1 if kind.startswith("union_tag") else len(first["loc"]) - 1
    where = ".".join(
        str(part) for k, part in enumerate(first["loc"]) if not _is_tag(part, last=k == last)
    )
    if kind == "extra_forbidden":
        near = did_you_mean(first["loc"][-1], _siblings(first["loc"], error.title))
        remedy = near or "remove it or check its spelling."
        return f"unknown key {where}; got {_shown(given)}: {remedy}"
    if kind == "missing":
        return f"{where} is required; got nothing: add it."
    near = ""
    requirement = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if not first["loc"]:  # an error of the spec as a whole needs no copy of it
        return f"{requirement}."
    if kind == "union_tag_invalid":
        context = first.get("ctx", {})
        where, given = f"{where}.kind", context.get("tag")
        requirement = f"must be one of {context.get('expected_tags')}"
        near = did_you_mean(given, re.findall(r"'(.*?)'", str(context.get("expected_tags"))))
    elif kind == "union_tag_not_found":
        where, requirement = f"{where}.kind", "must say which kind is meant"
    return f"{where} {requirement}; got {_shown(given)}{f': {near}' if near else '.'}"


def did_you_mean(word: object, names: Iterable[str]) -> str:
    """A question that names the one of `names` that is spelt nearly like `word`; else nothing.

    >>> did_you_mean("self_atention", ["self_attention", "noise"]), did_you_mean("x", ["noise"])
    ('did you mean self_attention?', '')
    """
    near = get_close_matches(str(word), list(names), 1)
    return f"did you mean {near[0]}?" if near else ""


def _shown(value: Any) -> str:
    """The beginning of a value's repr; words for what has none (too deep, too many digits)."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= 60 else text[:57] + "..."


# Names pydantic gives to the forms of a value; nobody wrote them.
_FORMS = frozenset(
    "Draw float int str bool constrained-float constrained-int constrained-str one many".split()
)


@cache
def _kinds() -> frozenset[str]:
    """Every kind that a part of a spec may have: `kind` of all its models."""
    from metastable.core.spec import Spec

    return frozenset(k for m in _models() if not issubclass(m, Spec) for k in _kinds_of(m))


def _models() -> Iterator[Any]:
    """All classes that specs are made of."""
    from metastable.core.spec import Model

    left: list[Any] = [Model]
    while left:
        model = left.pop()
        left += model.__subclasses__()
        yield model


def _kinds_of(model: Any) -> tuple[str, ...]:
    known = model.model_fields.get("kind")
    return () if known is None else get_args(known.annotation)


def _siblings(loc: tuple[Any, ...], title: str) -> set[str]:
    """Keys that may stand beside the last part of a location, in a spec of the class `title`.

    The part before it names the kind of the table they stand in, or the key of that table.
    """
    models = list(_models())
    if len(loc) == 1:
        owners = [m for m in models if m.__name__ == title]
    else:
        owners = [m for m in models if loc[-2] in _kinds_of(m)]
        tables = [m.model_fields[loc[-2]].annotation for m in models if loc[-2] in m.model_fields]
        owners += [m for m in models if m in tables]
    return {key for model in owners for key in model.model_fields}


def _is_tag(part: Any, *, last: bool) -> bool:
    """Whether a part of a location names a form of the value, not a key of the spec."""
    if not isinstance(part, str):
        return False
    return part in _FORMS or "[" in part or (part in _kinds() and not last)


def _most_telling(errors: list[Any]) -> Any:
    """Where a value may have several forms, the error of the form it nearly had."""
    first = errors[0]
    if isinstance(first["input"], dict):
        near = [e for e in errors if "Draw" in e["loc"]]
    elif isinstance(first["input"], list):
        near = [e for e in errors if e["type"] == "value_error"]
    elif isinstance(first["input"], int):
        limits = ("less_than", "greater_than")
        near = [e for e in errors if e["loc"][:-1] == first["loc"][:-1]]
        near = [e for e in near if e["type"].startswith(limits)]
    else:
        near = []
    return near[0] if near else first
