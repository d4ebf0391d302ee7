"""How to move: horizon, frames, stepper."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from metastable.spec.values import Count, Model, Positive, Seed, Several


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


class MergingSpec(Model):
    """Tokens that have collapsed become one; to the last cluster with `horizon = "end"`."""

    kind: Literal["merging"]
    radius: Positive | None = None
    rtol: Positive = 1e-9
    atol: Positive = 1e-9


class HardmaxSpec(Model):
    """The limit β → ∞, from event to event."""

    kind: Literal["hardmax"]
    radius: Positive = 1e-6


Stepper = Annotated[
    AdaptiveSpec | EulerSpec | LayersSpec | GeodesicSpec | MergingSpec | HardmaxSpec,
    Field(discriminator="kind"),
]


class ResolutionSpec(Model):
    """Harmonics of a density: how many at first, how many at most, and when to double them."""

    least: Count = 32
    most: Count | None = None
    tail: Positive = 1e-11


class Flow(Model):
    """`resolution` and `handover` (a number of tokens) are for densities."""

    horizon: Positive | Literal["end"] = 20.0
    frames: Several = 101
    seed: Seed = 0
    stepper: Stepper | None = None
    resolution: ResolutionSpec | None = None
    handover: Several | None = None
    sum: Literal["auto", "dense"] = "auto"
    check: bool = False

    @model_validator(mode="after")
    def _has_an_end(self) -> Flow:
        if self.horizon == "end" and not isinstance(self.stepper, MergingSpec | HardmaxSpec):
            raise ValueError(
                'horizon = "end" needs a run that ends by itself: set flow.stepper.kind to '
                '"merging" or "hardmax"'
            )
        return self
