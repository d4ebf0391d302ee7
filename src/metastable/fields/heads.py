"""Several heads of attention, added through output matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxtyping import Array, Float

from metastable.fields.attention import act, matrix
from metastable.fields.field import Field, Places
from metastable.fields.sums import Sum
from metastable.measures import Points


class MultiHead(Field):
    """The sum of several attention heads, each through its output matrix.

    ẋ_i = P_{x_i} Σ_h W_h A_h(x_i),  A_h the unprojected attention of head h.

    `outputs` holds one W_h per head: None (identity), a number, or a matrix (d, d_v) after a head
    whose value is (d_v, d).
    """

    heads: tuple[Field, ...]
    outputs: tuple[Array | None, ...]

    def __init__(self, heads: Sequence[Field], outputs: Sequence[Any] | None = None):
        given, heads = heads, tuple(heads) if isinstance(heads, list | tuple) else ()
        if not heads or not all(isinstance(head, Field) for head in heads):
            raise ValueError(f"heads must be a non-empty list of fields; got {given!r}.")
        outputs = [None] * len(heads) if outputs is None else list(outputs)
        if len(outputs) != len(heads):
            raise ValueError(
                f"outputs must hold one matrix per head ({len(heads)}); got {len(outputs)}."
            )
        self.heads = heads
        self.outputs = tuple(matrix("outputs", w) for w in outputs)

    @property
    def clock(self) -> str | None:
        names = dict.fromkeys(head.clock for head in self.heads if head.clock is not None)
        return "+".join(names) or None

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        parts = [
            act(output, head.drift(measure, at, t, sum))
            for head, output in zip(self.heads, self.outputs, strict=True)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total
