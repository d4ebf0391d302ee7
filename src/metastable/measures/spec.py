"""Starts: one model per way of placing tokens, or of shaping a density."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny

from metastable.core.registry import Registry
from metastable.core.spec import LARGEST, Count, Dim, Model, NonNegative, Positive, Real, Rows, Seed


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


class GivenTokens(Model):
    """Tokens given one by one, or in a NumPy file; `euclidean` leaves them in R^d as they are."""

    kind: Literal["tokens"]
    points: Rows | None = None
    file: str | None = None
    weights: list[NonNegative] | None = None
    times: list[Real] | None = None
    euclidean: bool = False
    positional: bool = False


class DensityMode(Model):
    """A density: uniform plus one harmonic, on the circle, S², or around an axis (`zonal`)."""

    kind: Literal["density_mode"]
    dim: Dim = 2
    degree: Count
    amplitude: Real
    order: Annotated[int, Field(ge=-LARGEST, le=LARGEST, strict=True)] = 0
    phase: Real = 0.0
    zonal: bool | None = None


class DensityVonMisesFisher(Model):
    """A density ∝ e^{concentration ⟨x,centre⟩}."""

    kind: Literal["density_von_mises_fisher"]
    centre: list[Real]
    concentration: NonNegative
    zonal: bool | None = None


class DensityOfTokens(Model):
    """The harmonics, up to a degree, of independent uniform tokens."""

    kind: Literal["density_of_tokens"]
    tokens: Count
    dim: Annotated[int, Field(ge=2, le=3, strict=True)] = 2
    degree: Count = 32
    seed: Seed = 0


Densities = (DensityMode, DensityVonMisesFisher, DensityOfTokens)

_OnSphere = Uniform | Orthogonal | VonMisesFisher | Planted | Caps | Polygon | Simplex
_Tokens = _OnSphere | GaussianPoints | GivenTokens
_Written = _Tokens | DensityMode | DensityVonMisesFisher | DensityOfTokens
# Further starts: kind → "module:function", whose signature is the spec.
STARTS = Registry(
    "start",
    _Written,
    {
        "gaussian": "metastable.measures.build:gaussian_start",
    },
)
Measure = SerializeAsAny[Annotated[_Written, Field(discriminator="kind"), STARTS.validator]]
