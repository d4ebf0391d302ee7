"""What all specs are made of: numbers with ranges, matrices, random draws."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from metastable.core.toml import to_toml

__all__ = [
    "LARGEST",
    "Count",
    "Dim",
    "Draw",
    "Model",
    "NonNegative",
    "Operator",
    "Positive",
    "Real",
    "Rows",
    "Seed",
    "Several",
    "Spec",
    "Whole",
    "fingerprint",
]

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
    """What every piece of work has: a kind, by which it is found, and a name for people."""

    kind: str
    name: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the content, the name aside: equal digests mean equal work."""
        return fingerprint(self.model_dump(mode="json", exclude={"name"}))

    def to_toml(self) -> str:
        return to_toml(self.model_dump(mode="json", exclude_none=True))


class Draw(Model):
    """A random matrix: A with entries N(0, scale²/d), (A + Aᵀ)/√2, or a random orthogonal one."""

    draw: Literal["gaussian", "symmetric", "orthogonal"]
    seed: Seed = 0
    scale: Real = 1.0


Operator = Real | Rows | Draw | None
