"""Fields: one model per force on tokens, and lists of them that add."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, SerializeAsAny, Tag

from metastable.core.registry import Registry
from metastable.core.spec import Count, Model, NonNegative, Operator, Positive, Real, Whole


class RopeSpec(Model):
    kind: Literal["rope"]
    base: Positive = 10000.0


class AlibiSpec(Model):
    kind: Literal["alibi"]
    slope: NonNegative


class WindowSpec(Model):
    kind: Literal["window"]
    width: Positive
    sinks: Whole = 0


Position = Annotated[RopeSpec | AlibiSpec | WindowSpec, Field(discriminator="kind")]


class SelfAttentionSpec(Model):
    kind: Literal["self_attention"] = "self_attention"
    beta: NonNegative = 1.0
    query: Operator = None
    key: Operator = None
    value: Operator = None
    normalized: bool = True
    causal: bool = False
    position: tuple[Position, ...] = ()


class L2Spec(Model):
    kind: Literal["l2_attention"]
    beta: NonNegative
    query: Operator = None
    key: Operator = None
    value: Operator = None
    causal: bool = False


class SinkhornSpec(Model):
    kind: Literal["sinkhorn_attention"]
    beta: NonNegative
    query: Operator = None
    key: Operator = None
    value: Operator = None


class SigmoidSpec(Model):
    kind: Literal["sigmoid_attention"]
    beta: NonNegative
    bias: Real = 0.0
    query: Operator = None
    key: Operator = None
    value: Operator = None


class SinkSpec(Model):
    kind: Literal["sink_attention"]
    beta: NonNegative
    sink: Real = 0.0
    query: Operator = None
    key: Operator = None
    value: Operator = None
    causal: bool = False


class LinearSpec(Model):
    kind: Literal["linear_attention"]
    query: Operator = None
    key: Operator = None
    value: Operator = None
    features: Literal["plain", "elu"] = "plain"
    normalized: bool = False


class StateSpaceSpec(Model):
    kind: Literal["state_space"]
    decay: NonNegative = 1.0
    query: Operator = None
    key: Operator = None
    value: Operator = None
    gate: list[Real] | None = None
    bias: Real = 0.0


class MultiHeadSpec(Model):
    kind: Literal["multi_head"]
    heads: tuple[SelfAttentionSpec, ...] = Field(min_length=1)
    outputs: tuple[Operator, ...] | None = None


class KuramotoSpec(Model):
    kind: Literal["kuramoto"]
    coupling: Real = 1.0
    frequencies: list[Real] | None = None


class KuramotoNetworkSpec(Model):
    """`edges`: pairs of tokens, numbered from 0, or the name of a graph on all of them."""

    kind: Literal["kuramoto_network"]
    edges: Literal["complete", "ring", "path", "star"] | tuple[tuple[Whole, Whole], ...]
    coupling: Real = 1.0
    frequencies: list[Real] | None = None
    reach: Count = 1


class KrauseSpec(Model):
    """Confidence within `radius`: constant up to it, or e^{−‖x−y‖²/(2 radius²)} with `smooth`."""

    kind: Literal["krause"]
    radius: Positive
    smooth: bool = False


class PotentialSpec(Model):
    """W(s) = Σ_k coefficients[k] s^k."""

    kind: Literal["potential"]
    coefficients: list[Real] = Field(min_length=2)


class FeedForwardSpec(Model):
    kind: Literal["feed_forward"]
    outer: Operator = None
    inner: Operator = None
    bias: list[Real] | None = None
    activation: Literal["relu", "tanh", "gelu", "sigmoid"] = "relu"
    after: SelfAttentionSpec | MultiHeadSpec | None = None


class NoiseSpec(Model):
    kind: Literal["noise"]
    kappa: Positive


class RandomValueSpec(Model):
    """A head whose value matrix is drawn anew at every moment, for all tokens at once."""

    kind: Literal["random_value"]
    beta: NonNegative | None = None
    scale: Positive = 1.0
    orthogonal: bool = False
    causal: bool = False


class PositionalAttentionSpec(Model):
    """A chain whose tokens see each other by their places: weights by position are normalised."""

    kind: Literal["positional_attention"]
    beta: NonNegative
    slope: NonNegative = 0.0
    causal: bool = True
    width: Positive | None = None
    sinks: Whole = 0


_Attention = SelfAttentionSpec | L2Spec | SinkhornSpec | MultiHeadSpec
Placeable = Annotated[_Attention | FeedForwardSpec, Field(discriminator="kind")]


class BlockSpec(Model):
    kind: Literal["block"]
    field: Placeable
    placement: Literal["post", "pre", "peri", "ngpt", "depth_sqrt", "mix"]
    alpha: Positive = 1.0
    until: NonNegative = 1.0


class GainSpec(Model):
    kind: Literal["gain"]
    field: Placeable
    gain: list[Real]


class RescaledSpec(Model):
    kind: Literal["rescaled"]
    attention: SelfAttentionSpec


class PiecewiseSpec(Model):
    """One field per layer: the k-th holds until switches[k]."""

    kind: Literal["piecewise"]
    fields: tuple[SelfAttentionSpec, ...] = Field(min_length=1)
    switches: list[Positive]


_Forces = KuramotoSpec | KrauseSpec | PotentialSpec | FeedForwardSpec | NoiseSpec
_Forces = _Forces | RandomValueSpec | PositionalAttentionSpec | KuramotoNetworkSpec
_Forces = _Forces | SigmoidSpec | SinkSpec | LinearSpec | StateSpaceSpec
_Written = _Attention | _Forces | BlockSpec | GainSpec | RescaledSpec | PiecewiseSpec
# Further fields: kind → "module:Class", whose signature is the spec.
FIELDS = Registry(
    "field",
    _Written,
    {
        "random_heads": "metastable.fields.random:RandomHeads",
    },
)
FieldSpec = SerializeAsAny[Annotated[_Written, Field(discriminator="kind"), FIELDS.validator]]


Fields = Annotated[
    Annotated[FieldSpec, Tag("one")] | Annotated[tuple[FieldSpec, ...], Tag("many")],
    Discriminator(lambda value: "many" if isinstance(value, list | tuple) else "one"),
]
