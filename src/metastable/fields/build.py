"""Fields from their specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metastable import fields
from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.spec import Draw
from metastable.spec import fields as spec

__all__ = ["build_field"]

_ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "sigmoid": jax.nn.sigmoid,
}


def build_field(described: Any, dim: int) -> fields.Field:
    """The field a spec describes, for tokens of dimension `dim`; a sequence adds up."""
    if isinstance(described, Sequence):
        if not described:
            raise ValueError("field must hold at least one field; got an empty list.")
        parts = [build_field(part, dim) for part in described]
        return parts[0] if len(parts) == 1 else fields.Superposition(parts)
    return _BUILDERS[type(described)](described, dim)


def _operator(described: Any, dim: int) -> Any:
    """None, a number or rows as they are; a draw as a matrix."""
    if not isinstance(described, Draw):
        array = None if described is None else jnp.asarray(described)
        if array is not None and array.ndim == 2 and dim not in array.shape:
            raise ValueError(
                f"a matrix of shape {array.shape} cannot act on tokens of dimension {dim}."
            )
        return array
    key = jax.random.key(checks.seed(described.seed))
    entries = jax.random.normal(key, (dim, dim)) / jnp.sqrt(dim)
    if described.draw == "symmetric":
        entries = (entries + entries.T) / jnp.sqrt(2.0)
    elif described.draw == "orthogonal":
        entries, upper = jnp.linalg.qr(entries)
        entries = entries * jnp.sign(jnp.diag(upper))
    return described.scale * entries


def _operators(described: Any, dim: int, names: str) -> dict[str, Any]:
    return {name: _operator(getattr(described, name), dim) for name in names.split()}


def _self_attention(s: spec.SelfAttentionSpec, dim: int) -> fields.SelfAttention:
    schemes = {"rope": fields.Rope, "alibi": fields.Alibi, "window": fields.Window}
    return fields.SelfAttention(
        s.beta,
        **_operators(s, dim, "query key value"),
        normalized=s.normalized,
        causal=s.causal,
        position=tuple(schemes[p.kind](**p.model_dump(exclude={"kind"})) for p in s.position),
    )


def _l2(s: spec.L2Spec, dim: int) -> fields.L2Attention:
    return fields.L2Attention(s.beta, **_operators(s, dim, "query key value"), causal=s.causal)


def _sinkhorn(s: spec.SinkhornSpec, dim: int) -> fields.SinkhornAttention:
    return fields.SinkhornAttention(s.beta, **_operators(s, dim, "query key value"))


def _multi_head(s: spec.MultiHeadSpec, dim: int) -> fields.MultiHead:
    outputs = None if s.outputs is None else [_operator(w, dim) for w in s.outputs]
    return fields.MultiHead([_self_attention(head, dim) for head in s.heads], outputs)


def _kuramoto(s: spec.KuramotoSpec, dim: int) -> fields.Kuramoto:
    frequencies = None if s.frequencies is None else jnp.asarray(s.frequencies)
    return fields.Kuramoto(s.coupling, frequencies)


def _krause(s: spec.KrauseSpec, dim: int) -> fields.Krause:
    square = s.radius**2
    if s.smooth:
        return fields.Krause(lambda r2: jnp.exp(-0.5 * r2 / square))
    return fields.Krause(lambda r2: jnp.where(r2 <= square, 1.0, 0.0))


def _potential(s: spec.PotentialSpec, dim: int) -> fields.Potential:
    coefficients = jnp.asarray(s.coefficients[::-1])
    return fields.Potential(lambda inner: jnp.polyval(coefficients, inner))


def _feed_forward(s: spec.FeedForwardSpec, dim: int) -> fields.FeedForward:
    return fields.FeedForward(
        **_operators(s, dim, "outer inner"),
        bias=None if s.bias is None else jnp.asarray(s.bias),
        activation=_ACTIVATIONS[s.activation],
        after=None if s.after is None else build_field(s.after, dim),
    )


def _noise(s: spec.NoiseSpec, dim: int) -> fields.Noise:
    return fields.Noise(s.kappa)


def _block(s: spec.BlockSpec, dim: int) -> fields.Block:
    placement = {
        "post": fields.PostNorm,
        "pre": fields.PreNorm,
        "peri": fields.PeriNorm,
        "ngpt": lambda: fields.NGPT(s.alpha),
        "depth_sqrt": fields.DepthSqrt,
        "mix": lambda: fields.Mix(s.until),
    }[s.placement]()
    return fields.Block(build_field(s.field, dim), placement)


def _gain(s: spec.GainSpec, dim: int) -> fields.Gain:
    return fields.Gain(build_field(s.field, dim), jnp.asarray(s.gain))


def _rescaled(s: spec.RescaledSpec, dim: int) -> fields.Rescaled:
    return fields.Rescaled(_self_attention(s.attention, dim))


def _piecewise(s: spec.PiecewiseSpec, dim: int) -> fields.Schedule:
    return fields.Schedule.piecewise([_self_attention(f, dim) for f in s.fields], s.switches)


_BUILDERS: dict[type, Any] = {
    spec.SelfAttentionSpec: _self_attention,
    spec.L2Spec: _l2,
    spec.SinkhornSpec: _sinkhorn,
    spec.MultiHeadSpec: _multi_head,
    spec.KuramotoSpec: _kuramoto,
    spec.KrauseSpec: _krause,
    spec.PotentialSpec: _potential,
    spec.FeedForwardSpec: _feed_forward,
    spec.NoiseSpec: _noise,
    spec.BlockSpec: _block,
    spec.GainSpec: _gain,
    spec.RescaledSpec: _rescaled,
    spec.PiecewiseSpec: _piecewise,
}
