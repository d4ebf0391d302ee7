"""One flow as a spec: start, field and how to move; read from TOML, with overrides."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, model_validator

from metastable.core.registry import Registry
from metastable.core.spec import Count, Model, Positive, Seed, Several, Spec, fingerprint
from metastable.fields.spec import Fields, SelfAttentionSpec
from metastable.measures.spec import Measure, Uniform


class AdaptiveSpec(Model):
    kind: Literal["adaptive"] = "adaptive"
    rtol: Positive = 1e-9
    atol: Positive = 1e-9
    max_steps: Count = 100_000


class FixedSpec(Model):
    """Equal steps of an explicit Runge–Kutta method."""

    kind: Literal["fixed"]
    step: Positive
    solver: Literal["euler", "heun", "bosh3", "tsit5", "dopri5", "dopri8"] = "tsit5"


class LayersSpec(Model):
    """Discrete depth: horizon/step layers x ← N(x + step·A(x))."""

    kind: Literal["layers"]
    step: Positive = 1.0
    residual: bool = True
    truncated: bool = False


class GeodesicSpec(Model):
    kind: Literal["geodesic"]
    step: Positive | None = None


class MergingSpec(Model):
    """Tokens that have collapsed become one; to the last cluster with `horizon = "end"`."""

    kind: Literal["merging"]
    radius: Positive | None = None
    stepper: AdaptiveSpec = AdaptiveSpec()


class HardmaxSpec(Model):
    """The limit β → ∞, from event to event."""

    kind: Literal["hardmax"]
    radius: Positive = 1e-6


class ResolutionSpec(Model):
    """Harmonics of a density: how many at first, how many at most, and when to double them.

    `handover` is a number of tokens with which an unresolved run goes on.
    """

    kind: Literal["resolution"]
    least: Count = 32
    most: Count | None = None
    tail: Positive = 1e-11
    handover: Several | None = None
    stepper: AdaptiveSpec | None = None


_Steps = AdaptiveSpec | FixedSpec | LayersSpec | GeodesicSpec
Written = _Steps | MergingSpec | HardmaxSpec | ResolutionSpec
# Further steppers: kind → "module:Class", whose signature is the spec.
STEPPERS = Registry("stepper", Written, {})
Stepper = SerializeAsAny[Annotated[Written, Field(discriminator="kind"), STEPPERS.validator]]


class Flow(Model):
    """How to move, in the words of `flow`; the steppers are those of Python."""

    horizon: Positive | Literal["end"] = 20.0
    frames: Several = 101
    seed: Seed = 0
    stepper: Stepper | None = None
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


class Experiment(Spec):
    """One flow: a start, a field (or a list of fields that add), and how to move.

    >>> Experiment().field.beta
    1.0
    """

    PATHS = ("measure.file",)

    kind: Literal["flow"] = "flow"
    measure: Measure = Uniform()
    field: Fields = SelfAttentionSpec()
    flow: Flow = Flow()

    @model_validator(mode="before")
    @classmethod
    def _named_kinds(cls, tree: Any) -> Any:
        """A start without a kind is uniform, a field without one self-attention."""
        for section, kind in (("measure", "uniform"), ("field", "self_attention")):
            if isinstance(tree, dict) and isinstance(tree.get(section), dict):
                tree = {**tree, section: {"kind": kind, **tree[section]}}
        return tree

    @property
    def digest(self) -> str:
        """SHA-256 of the content and of a file of tokens, the name aside."""
        content = self.model_dump(mode="json", exclude={"name"})
        file = getattr(self.measure, "file", None)
        if file is not None and Path(file).is_file():
            content["measure"]["file"] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return fingerprint(content)

    def with_noise(self, kappa: float) -> Experiment:
        """The same with a noise of that κ beside its fields."""
        tree = self.model_dump(mode="json", exclude_none=True)
        fields = tree["field"] if isinstance(tree["field"], list) else [tree["field"]]
        return self.from_tree({**tree, "field": [*fields, {"kind": "noise", "kappa": kappa}]})
