"""What all specs are made of: their base, numbers with ranges, matrices, random draws."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from metastable.core.errors import one_line
from metastable.core.toml import read_toml, to_toml

LARGEST = 2**63 - 1  # what an array's shape, a seed and a TOML integer can hold

Whole = Annotated[int, Field(ge=0, le=LARGEST, strict=True)]
Count = Annotated[int, Field(ge=1, le=LARGEST, strict=True)]
Several = Annotated[int, Field(ge=2, le=LARGEST, strict=True)]
Dim = Several
Seed = Whole
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Real = Annotated[float, Field(allow_inf_nan=False)]


def _rectangular(rows: list[list[float]]) -> list[list[float]]:
    widths = sorted({len(row) for row in rows})
    if len(widths) != 1 or widths[0] == 0:
        raise ValueError(f"must have rows of one nonzero length, not {widths}")
    return rows


Rows = Annotated[list[list[Real]], AfterValidator(_rectangular)]


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def fingerprint(content: dict[str, Any]) -> str:
    """SHA-256 of a tree of plain values, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Spec(Model):
    """One piece of work: validated, frozen, read from TOML and written back.

    A subclass says its `kind`, and in `PATHS` the dotted keys of files, which are looked for beside
    the spec.
    """

    PATHS: ClassVar[tuple[str, ...]] = ()

    kind: str
    name: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the content, the name aside: equal digests mean equal work."""
        return fingerprint(self.model_dump(mode="json", exclude={"name"}))

    def to_toml(self) -> str:
        return to_toml(self.model_dump(mode="json", exclude_none=True))

    @classmethod
    def load(cls, path: str | Path, overrides: Mapping[str, Any] | None = None) -> Self:
        """Read a TOML file and apply `a.b.c = value` overrides; a ValueError of one line."""
        return cls.from_tree(read_toml(path), overrides, Path(path).resolve().parent)

    @classmethod
    def from_tree(
        cls,
        tree: dict[str, Any],
        overrides: Mapping[str, Any] | None = None,
        folder: Path | None = None,
    ) -> Self:
        """A spec from plain values, whose relative paths are seen from `folder`."""
        for key in cls.PATHS if folder is not None else ():
            *parents, last = key.split(".")
            node: Any = tree
            for parent in parents:
                node = node.get(parent) if isinstance(node, dict) else None
            place = node.get(last) if isinstance(node, dict) else None
            if folder is None or not isinstance(node, dict):
                continue
            if isinstance(place, str):
                node[last] = str(folder / place)
            elif isinstance(place, list):
                node[last] = [str(folder / one) if isinstance(one, str) else one for one in place]
        for key, value in (overrides or {}).items():
            assign(tree, key, value)
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise ValueError(one_line(error)) from None


def assign(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set `a.b.c` in a tree, where a part may be the number of a list's entry."""
    *parents, last = key.split(".")
    node: Any = tree
    try:
        for parent in parents:
            node = node[int(parent)] if isinstance(node, list) else node.setdefault(parent, {})
        node[int(last) if isinstance(node, list) else last] = value
    except (ValueError, IndexError, AttributeError, TypeError):
        place = ".".join(parents)
        raise ValueError(
            f"{key} cannot be set: {place} is no table in this spec; for one of several fields "
            f"write --set {place}.0.{last}=..."
        ) from None


class Draw(Model):
    """A random matrix: A with entries N(0, scale²/d), (A + Aᵀ)/√2, or a random orthogonal one."""

    draw: Literal["gaussian", "symmetric", "orthogonal"]
    seed: Seed = 0
    scale: Real = 1.0


Operator = Real | Rows | Draw | None
