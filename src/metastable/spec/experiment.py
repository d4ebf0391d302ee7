"""One flow as a spec: start, field and how to move; read from TOML, with overrides."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from metastable.core.errors import one_line
from metastable.core.spec import Count, Model, Positive, Seed, Several, fingerprint
from metastable.core.toml import read_toml, to_toml
from metastable.spec.fields import Fields, SelfAttentionSpec
from metastable.spec.measures import Measure, Uniform

__all__ = ["Experiment", "Flow", "load_experiment"]


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


Stepper = Annotated[
    AdaptiveSpec
    | FixedSpec
    | LayersSpec
    | GeodesicSpec
    | MergingSpec
    | HardmaxSpec
    | ResolutionSpec,
    Field(discriminator="kind"),
]


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


class Experiment(Model):
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
        return fingerprint(content)

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
        tree = read_toml(path)
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
