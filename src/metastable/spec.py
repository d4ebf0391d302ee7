"""What to run, as frozen validated data: TOML in and out, with a content hash.

One tree of models serves the TOML files, the command line and every other boundary. Values are
checked here as far as they can be without building anything; shapes against each other are checked
by the objects themselves.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)

from metastable.complaints import one_line
from metastable.toml import to_toml

__all__ = ["Experiment", "load_experiment"]

Count = Annotated[int, Field(ge=1, strict=True)]
Dim = Annotated[int, Field(ge=2, strict=True)]
Seed = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Real = Annotated[float, Field(allow_inf_nan=False)]


def _rectangular(rows: list[list[float]]) -> list[list[float]]:
    widths = sorted({len(row) for row in rows})
    if len(widths) != 1 or widths[0] == 0:
        raise ValueError(f"must have rows of one nonzero length, not {widths}")
    return rows


Rows = Annotated[list[list[Real]], AfterValidator(_rectangular)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Draw(_Model):
    """A random matrix: A with entries N(0, scale²/d), (A + Aᵀ)/√2, or a random orthogonal one."""

    draw: Literal["gaussian", "symmetric", "orthogonal"]
    seed: Seed = 0
    scale: Real = 1.0


Operator = Real | Rows | Draw | None


class Uniform(_Model):
    kind: Literal["uniform"] = "uniform"
    tokens: Count = 1000
    dim: Dim = 2
    seed: Seed = 0


class Orthogonal(_Model):
    kind: Literal["orthogonal"]
    tokens: Count
    dim: Dim
    seed: Seed | None = None


class VonMisesFisher(_Model):
    kind: Literal["von_mises_fisher"]
    tokens: Count
    centre: list[Real]
    concentration: NonNegative
    seed: Seed = 0


class Planted(_Model):
    kind: Literal["planted"]
    tokens: Count
    dim: Dim
    clusters: Count
    concentration: NonNegative = 100.0
    seed: Seed = 0


class Caps(_Model):
    kind: Literal["caps"]
    tokens_per_cap: Count
    centres: Rows
    radius: Positive
    seed: Seed = 0


class Polygon(_Model):
    kind: Literal["polygon"]
    tokens: Count
    dim: Dim = 2


class Simplex(_Model):
    kind: Literal["simplex"]
    dim: Dim


class GaussianPoints(_Model):
    kind: Literal["gaussian_points"]
    tokens: Count
    dim: Count
    scale: Positive = 1.0
    seed: Seed = 0


class Tokens(_Model):
    """Tokens given one by one, or in a NumPy file; `euclidean` leaves them in R^d as they are."""

    kind: Literal["tokens"]
    points: Rows | None = None
    file: str | None = None
    weights: list[NonNegative] | None = None
    times: list[Real] | None = None
    euclidean: bool = False
    positional: bool = False


Measure = Annotated[
    Uniform
    | Orthogonal
    | VonMisesFisher
    | Planted
    | Caps
    | Polygon
    | Simplex
    | GaussianPoints
    | Tokens,
    Field(discriminator="kind"),
]


class RopeSpec(_Model):
    kind: Literal["rope"]
    base: Positive = 10000.0


class AlibiSpec(_Model):
    kind: Literal["alibi"]
    slope: NonNegative


class WindowSpec(_Model):
    kind: Literal["window"]
    width: Positive
    sinks: Annotated[int, Field(ge=0, strict=True)] = 0


Position = Annotated[RopeSpec | AlibiSpec | WindowSpec, Field(discriminator="kind")]


class SelfAttentionSpec(_Model):
    kind: Literal["self_attention"] = "self_attention"
    beta: NonNegative = 1.0
    query: Operator = None
    key: Operator = None
    value: Operator = None
    normalized: bool = True
    causal: bool = False
    position: tuple[Position, ...] = ()


class L2Spec(_Model):
    kind: Literal["l2_attention"]
    beta: NonNegative
    query: Operator = None
    key: Operator = None
    value: Operator = None
    causal: bool = False


class SinkhornSpec(_Model):
    kind: Literal["sinkhorn_attention"]
    beta: NonNegative
    query: Operator = None
    key: Operator = None
    value: Operator = None


class MultiHeadSpec(_Model):
    kind: Literal["multi_head"]
    heads: tuple[SelfAttentionSpec, ...] = Field(min_length=1)
    outputs: tuple[Operator, ...] | None = None


class KuramotoSpec(_Model):
    kind: Literal["kuramoto"]
    coupling: Real = 1.0
    frequencies: list[Real] | None = None


class KrauseSpec(_Model):
    """Confidence within `radius`: constant up to it, or e^{−‖x−y‖²/(2 radius²)} with `smooth`."""

    kind: Literal["krause"]
    radius: Positive
    smooth: bool = False


class PotentialSpec(_Model):
    """W(s) = Σ_k coefficients[k] s^k."""

    kind: Literal["potential"]
    coefficients: list[Real] = Field(min_length=2)


class FeedForwardSpec(_Model):
    kind: Literal["feed_forward"]
    outer: Operator = None
    inner: Operator = None
    bias: list[Real] | None = None
    activation: Literal["relu", "tanh", "gelu", "sigmoid"] = "relu"
    after: SelfAttentionSpec | MultiHeadSpec | None = None


class NoiseSpec(_Model):
    kind: Literal["noise"]
    kappa: Positive


Placeable = Annotated[
    SelfAttentionSpec | L2Spec | SinkhornSpec | MultiHeadSpec | FeedForwardSpec,
    Field(discriminator="kind"),
]


class BlockSpec(_Model):
    kind: Literal["block"]
    field: Placeable
    placement: Literal["post", "pre", "peri", "ngpt", "depth_sqrt", "mix"]
    alpha: Positive = 1.0
    until: NonNegative = 1.0


class GainSpec(_Model):
    kind: Literal["gain"]
    field: Placeable
    gain: list[Real]


class RescaledSpec(_Model):
    kind: Literal["rescaled"]
    attention: SelfAttentionSpec


class PiecewiseSpec(_Model):
    """One field per layer: the k-th holds until switches[k]."""

    kind: Literal["piecewise"]
    fields: tuple[SelfAttentionSpec, ...] = Field(min_length=1)
    switches: list[Positive]


FieldSpec = Annotated[
    SelfAttentionSpec
    | L2Spec
    | SinkhornSpec
    | MultiHeadSpec
    | KuramotoSpec
    | KrauseSpec
    | PotentialSpec
    | FeedForwardSpec
    | NoiseSpec
    | BlockSpec
    | GainSpec
    | RescaledSpec
    | PiecewiseSpec,
    Field(discriminator="kind"),
]


Fields = Annotated[
    Annotated[FieldSpec, Tag("one")] | Annotated[tuple[FieldSpec, ...], Tag("many")],
    Discriminator(lambda value: "many" if isinstance(value, list | tuple) else "one"),
]


class AdaptiveSpec(_Model):
    kind: Literal["adaptive"] = "adaptive"
    rtol: Positive = 1e-9
    atol: Positive = 1e-9
    max_steps: Count = 100_000


class EulerSpec(_Model):
    kind: Literal["euler"]
    step: Positive


class LayersSpec(_Model):
    """Discrete depth: horizon/step layers x ← N(x + step·A(x))."""

    kind: Literal["layers"]
    step: Positive = 1.0


class GeodesicSpec(_Model):
    kind: Literal["geodesic"]
    step: Positive | None = None


Stepper = Annotated[
    AdaptiveSpec | EulerSpec | LayersSpec | GeodesicSpec, Field(discriminator="kind")
]


class Flow(_Model):
    horizon: Positive = 20.0
    frames: Annotated[int, Field(ge=2, strict=True)] = 101
    seed: Seed = 0
    stepper: Stepper | None = None


class Experiment(_Model):
    """One flow: a start, a field (or a list of fields that add), and how to move.

    >>> Experiment().field.beta
    1.0
    """

    name: str = ""
    measure: Measure = Uniform()
    field: Fields = SelfAttentionSpec()
    flow: Flow = Flow()

    @property
    def digest(self) -> str:
        """SHA-256 of the content, the name aside: equal digests mean equal runs."""
        content = self.model_dump(mode="json", exclude={"name"})
        file = getattr(self.measure, "file", None)
        if file is not None and Path(file).is_file():
            content["measure"]["file"] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def to_toml(self) -> str:
        return to_toml(self.model_dump(mode="json", exclude_none=True))


def load_experiment(
    path: str | Path | None, overrides: dict[str, Any], noise: float | None = None
) -> Experiment:
    """Read a TOML file (or start from the defaults) and apply `a.b.c = value` overrides.

    `noise` adds a noise of that κ to whatever fields there are.
    """
    tree: dict[str, Any] = {}
    if path is not None:
        try:
            tree = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"SPEC must be a readable TOML file; got {path} ({error}).") from None
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"SPEC must be valid TOML; {path}: {error}.") from None
        measure = tree.get("measure")
        if isinstance(measure, dict) and isinstance(measure.get("file"), str):
            measure["file"] = str(Path(path).resolve().parent / measure["file"])
    for key, value in overrides.items():
        _assign(tree, key, value)
    for section, kind in (("measure", "uniform"), ("field", "self_attention")):
        if isinstance(tree.get(section), dict):
            tree[section].setdefault("kind", kind)
    if noise is not None:
        fields = tree.get("field", {"kind": "self_attention"})
        fields = fields if isinstance(fields, list) else [fields]
        tree["field"] = [*fields, {"kind": "noise", "kappa": noise}]
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None


def _assign(tree: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    node: Any = tree
    try:
        for parent in parents:
            if isinstance(node, list):
                node = node[int(parent)]
            else:
                node = node.setdefault(parent, {})
        if isinstance(node, list):
            node[int(last)] = value
        else:
            node[last] = value
    except (ValueError, IndexError, AttributeError, TypeError):
        place = ".".join(parents)
        raise ValueError(
            f"{key} cannot be set: {place} is no table in this spec; for one of several fields "
            f"write --set {place}.0.{last}=..."
        ) from None
