"""How to move: horizon, frames, stepper."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from metastable.spec.values import Count, Model, Positive, Seed


class AdaptiveSpec(Model):
    kind: Literal["adaptive"] = "adaptive"
    rtol: Positive = 1e-9
    atol: Positive = 1e-9
    max_steps: Count = 100_000


class EulerSpec(Model):
    kind: Literal["euler"]
    step: Positive


class LayersSpec(Model):
    """Discrete depth: horizon/step layers x ← N(x + step·A(x))."""

    kind: Literal["layers"]
    step: Positive = 1.0


class GeodesicSpec(Model):
    kind: Literal["geodesic"]
    step: Positive | None = None


Stepper = Annotated[
    AdaptiveSpec | EulerSpec | LayersSpec | GeodesicSpec, Field(discriminator="kind")
]


class Flow(Model):
    horizon: Positive = 20.0
    frames: Annotated[int, Field(ge=2, strict=True)] = 101
    seed: Seed = 0
    stepper: Stepper | None = None
