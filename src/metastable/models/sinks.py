"""Attention sinks: heads that spend most of their attention on the first token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metastable.models.passes import Inside
from metastable.models.stated import StatedLayer

SINK = 0.5  # share of attention on the first token that makes a head a sink


@dataclass(frozen=True)
class Sink:
    """One head that looks at the first token; see `find_sinks`."""

    layer: int
    head: int
    share: float  # of attention on the first token, mean over the tokens after the third
    value: float  # length of what it hears there over the median length elsewhere

    def to_row(self) -> dict[str, Any]:
        return asdict(self)


def sink_shares(maps: Any) -> np.ndarray:
    """(heads,): mean weight on the first token, over the tokens after the third."""
    return np.asarray(maps, float)[:, 3:, 0].mean(axis=-1)


def find_sinks(layers: Sequence[Inside], stated: Sequence[StatedLayer]) -> list[Sink]:
    """Heads with a share above one half, the largest first.

    A sink is of use where it says nothing: a value ‖O(Vx_1 + v)‖ far below the others' makes the
    head rest (arXiv:2309.17453). In theory it is an anchor: a token that others see and that,
    first of a causal chain, sees itself alone.
    """
    found = []
    for number, (layer, own) in enumerate(zip(layers, stated, strict=False)):
        if layer.maps is None or layer.seen is None or len(layer.seen) < 4:
            continue
        shares = sink_shares(layer.maps)
        values = own.values(layer.seen)
        for head in np.flatnonzero(shares > SINK).tolist():
            told = np.linalg.norm(values[head] @ own.heads[head].output.T, axis=1)
            ratio = float(told[0] / max(float(np.median(told[1:])), 1e-300))
            found.append(Sink(number, head, float(shares[head]), ratio))
    return sorted(found, key=lambda sink: -sink.share)


def sink_sentence(sinks: Sequence[Sink], heads: int) -> str:
    """Such as "113 of 270 heads are attention sinks, most of all layer 5, head 2 (99 %)"."""
    if not sinks:
        return f"None of {heads} heads is an attention sink"
    named = ", ".join(f"{s.layer}.{s.head} ({100 * s.share:.0f} %)" for s in sinks[:3])
    quiet = np.median([sink.value for sink in sinks])
    return (
        f"{len(sinks)} of {heads} heads are attention sinks: more than half of their attention is "
        f"on the first token, most in layer.head {named}; its value there is {quiet:.2g} of the "
        "others' in length"
    )
