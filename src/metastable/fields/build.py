"""Fields from their specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metastable import fields
from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.spec import Draw, Model
from metastable.fields.spec import FIELDS

_ACTIVATIONS = {name: getattr(jax.nn, name) for name in ("relu", "tanh", "gelu", "sigmoid")}


def build_field(described: Any, dim: int) -> Any:
    """The field a spec describes, for tokens of dimension `dim`; a sequence adds up."""
    if isinstance(described, Sequence):
        if not described:
            raise ValueError("field must hold at least one field; got an empty list.")
        parts = [build_field(part, dim) for part in described]
        return parts[0] if len(parts) == 1 else fields.Superposition(parts)
    words = {
        name: _value(getattr(described, name), dim)
        for name in type(described).model_fields
        if name != "kind"
    }
    maker = _MAKERS.get(described.kind) or FIELDS.maker(described)
    return maker(**words)


def _value(given: Any, dim: int) -> Any:
    """A value of a spec as the constructors take it: fields built, draws drawn, lists as arrays."""
    if isinstance(given, Draw):
        return _drawn(given, dim)
    if isinstance(given, Model):
        return build_field(given, dim)
    if isinstance(given, tuple):
        return tuple(_value(part, dim) for part in given)
    if not isinstance(given, list):
        return given
    array = jnp.asarray(given)
    if array.ndim == 2 and dim not in array.shape:
        raise ValueError(
            f"a matrix of shape {array.shape} cannot act on tokens of dimension {dim}."
        )
    return array


def _drawn(described: Draw, dim: int) -> Any:
    key = jax.random.key(checks.seed(described.seed))
    entries = jax.random.normal(key, (dim, dim)) / jnp.sqrt(dim)
    if described.draw == "symmetric":
        entries = (entries + entries.T) / jnp.sqrt(2.0)
    elif described.draw == "orthogonal":
        entries, upper = jnp.linalg.qr(entries)
        entries = entries * jnp.sign(jnp.diag(upper))
    return described.scale * entries


def _krause(radius: float, smooth: bool) -> fields.Krause:
    square = radius**2
    if smooth:
        return fields.Krause(lambda r2: jnp.exp(-0.5 * r2 / square))
    return fields.Krause(lambda r2: jnp.where(r2 <= square, 1.0, 0.0))


def _potential(coefficients: Any) -> fields.Potential:
    return fields.Potential(lambda inner: jnp.polyval(coefficients[::-1], inner))


def _feed_forward(activation: str, **words: Any) -> fields.FeedForward:
    return fields.FeedForward(activation=_ACTIVATIONS[activation], **words)


def _block(field: Any, placement: str, alpha: float, until: float) -> fields.Block:
    placements = {
        "post": fields.PostNorm,
        "pre": fields.PreNorm,
        "peri": fields.PeriNorm,
        "ngpt": lambda: fields.NGPT(alpha),
        "depth_sqrt": fields.DepthSqrt,
        "mix": lambda: fields.Mix(until),
    }
    return fields.Block(field, placements[placement]())


# What makes each kind whose spec is written out; the others are known to `FIELDS`.
_MAKERS: dict[str, Any] = {
    "krause": _krause,
    "potential": _potential,
    "feed_forward": _feed_forward,
    "block": _block,
    "piecewise": fields.Schedule.piecewise,
}
_CLASSES = "self_attention l2_attention sinkhorn_attention multi_head kuramoto noise gain rescaled"
_CLASSES += " random_value positional_attention sigmoid_attention sink_attention linear_attention"
_CLASSES += " state_space kuramoto_network"
for _kind in f"{_CLASSES} rope alibi window".split():
    _MAKERS[_kind] = getattr(fields, _kind.title().replace("_", ""))
