"""Starts: one model per way of placing tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from metastable.spec.values import Count, Dim, Model, NonNegative, Positive, Real, Rows, Seed


class Uniform(Model):
    kind: Literal["uniform"] = "uniform"
    tokens: Count = 1000
    dim: Dim = 2
    seed: Seed = 0


class Orthogonal(Model):
    kind: Literal["orthogonal"]
    tokens: Count
    dim: Dim
    seed: Seed | None = None


class VonMisesFisher(Model):
    kind: Literal["von_mises_fisher"]
    tokens: Count
    centre: list[Real]
    concentration: NonNegative
    seed: Seed = 0


class Planted(Model):
    kind: Literal["planted"]
    tokens: Count
    dim: Dim
    clusters: Count
    concentration: NonNegative = 100.0
    seed: Seed = 0


class Caps(Model):
    kind: Literal["caps"]
    tokens_per_cap: Count
    centres: Rows
    radius: Positive
    seed: Seed = 0


class Polygon(Model):
    kind: Literal["polygon"]
    tokens: Count
    dim: Dim = 2


class Simplex(Model):
    kind: Literal["simplex"]
    dim: Dim


class GaussianPoints(Model):
    kind: Literal["gaussian_points"]
    tokens: Count
    dim: Count
    scale: Positive = 1.0
    seed: Seed = 0


class Tokens(Model):
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
