"""Several heads of attention, added through output matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from jaxtyping import Array, Float

from metastable.fields.attention import act, matrix
from metastable.fields.field import Field, Places, joint_clock
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
        return joint_clock(self.heads)

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        heads = zip(self.heads, self.outputs, strict=True)
        return reduce(add, [act(w, head.drift(measure, at, t, sum)) for head, w in heads])
