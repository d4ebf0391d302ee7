"""Tokens of a hemisphere under attraction: the cap that holds them."""

from __future__ import annotations

import numpy as np

from metastable.comparison.case import Case
from metastable.comparison.equation import MARGIN
from metastable.core.verdict import Verdict, decide, not_applicable
from metastable.fields import (
    Field,
    Kuramoto,
    KuramotoNetwork,
    LinearAttention,
    MultiHead,
    Schedule,
    Superposition,
)
from metastable.fields.attention import AttentionHead
from metastable.fields.retrieval import PositionalAttention
from metastable.observe import hemisphere


def cap_never_widens(case: Case) -> Verdict | None:
    """In a hemisphere with pole e, min ⟨e,x_i⟩ never falls under attraction of any weights.

    At the farthest token ⟨e,F⟩ ≥ m·Σ_ja_ij and ⟨x,F⟩ ≤ Σ_ja_ij for F = Σ_j a_ij x_j, a ≥ 0.
    """
    claim, source = "the cap that holds all tokens never widens", "cone collapse, §6.1 of "
    source += "geshkovski2023mathematical"
    if not case.on_sphere or case.noisy or not case.same_tokens or not _attracts(case.field):
        return None
    if case.dim > 64 or case.tokens > 20_000:
        return None
    found = hemisphere(case.start)
    if not found.exists:
        return not_applicable(claim, source, "the start lies in no hemisphere")
    heights = np.min(case.points @ found.direction, axis=1)
    fall = float(np.diff(heights).min(initial=0.0))
    allowed = MARGIN * case.step_error
    return decide(fall >= -allowed, claim, source, "≥ 0", fall, f"{allowed:.2g}")


def _attracts(field: Field) -> bool:
    """Whether every token is pulled by others with nonnegative weights, and by nothing else."""
    if isinstance(field, Schedule):
        pieces = [field.at_time(t) for t in (0.0, *field.switches)]
        return bool(field.switches) and all(map(_attracts, pieces))
    if isinstance(field, Superposition):
        return all(_attracts(part) for part in field.parts)
    if isinstance(field, MultiHead):
        outputs = [1.0 if w is None else w for w in field.outputs]
        return all(map(_attracts, field.heads)) and all(
            np.ndim(w) == 0 and float(w) > 0 for w in outputs
        )
    if isinstance(field, Kuramoto):
        return field.frequencies is None and float(field.coupling) > 0
    if isinstance(field, KuramotoNetwork):
        return field.frequencies is None and float(field.coupling) > 0
    if isinstance(field, PositionalAttention):
        return True
    if isinstance(field, LinearAttention):
        return not field.plain and (
            field.value is None or (field.value.ndim == 0 and float(field.value) > 0)
        )
    if not isinstance(field, AttentionHead):
        return False
    value = field.value
    return value is None or (value.ndim == 0 and float(value) > 0)
