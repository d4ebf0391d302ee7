"""What to learn, as specs: one model per kind of lesson, TOML in and out.

`KINDS` lists them. `learn/build.py` turns each into a lesson.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from metastable.core.errors import one_line
from metastable.core.spec import (
    Count,
    Dim,
    Model,
    NonNegative,
    Positive,
    Seed,
    Several,
    Spec,
    Whole,
)
from metastable.core.toml import read_toml

__all__ = [
    "KINDS",
    "Classification",
    "DeepLimit",
    "Descent",
    "Digits",
    "Equivariant",
    "FeedForwardMap",
    "LessonSpec",
    "Network",
    "OnDemand",
    "ParticleFit",
    "Spirals",
    "Steering",
    "load_lesson",
]


class LessonSpec(Spec):
    """What all lessons have: a kind, a name for people, and a seed.

    >>> Classification(kind="classification").training.steps
    1500
    """

    seed: Seed = 0


class Spirals(Model):
    """Points on spiral arms in the plane, one arm a class."""

    kind: Literal["spirals"] = "spirals"
    points: Count = 1000
    classes: Dim = 2
    turns: Positive = 1.0
    noise: NonNegative = 0.02


class Digits(Model):
    """scikit-learn's 1797 handwritten digits of 8×8 pixels, ten classes."""

    kind: Literal["digits"]


class Network(Model):
    """ẋ = c σ(a x + b) through stages of some widths, and a linear classifier at the end.

    - `widths`: the dimension of the state in each stage; coordinates are appended as zeros or
      dropped in between.
    - `pieces`: weights per stage; 1 is constant weights. `path` says what they do in between.
    - `layers`: a ResNet of so many layers per stage; left out, the flow itself, solved to
      `tolerance` and differentiated through the `adjoint` of diffrax.
    """

    widths: Annotated[tuple[Dim, ...], Field(min_length=1)] = (3,)
    neurons: Count = 16
    pieces: Count = 1
    path: Literal["steps", "linear"] = "steps"
    horizon: Positive = 1.0
    layers: Count | None = None
    tolerance: Positive = 1e-4
    adjoint: Literal["checkpoints", "backsolve"] = "checkpoints"

    @model_validator(mode="after")
    def _whole_pieces(self) -> Network:
        if self.layers is not None and self.layers % self.pieces:
            raise ValueError("layers must be a multiple of pieces")
        return self


class Descent(Model):
    """Adam, its rate fading out; `batch` points a step, left out: all.

    `decay` shrinks the classifier and the features it reads.
    """

    steps: Count = 1500
    rate: Positive = 0.02
    batch: Count | None = None
    decay: NonNegative = 0.0
    loss: Literal["cross_entropy", "squares"] = "cross_entropy"


class Classification(LessonSpec):
    """A neural ODE or ResNet that tells classes apart, and how its classes collapse."""

    kind: Literal["classification"]
    data: Annotated[Spirals | Digits, Field(discriminator="kind")] = Spirals()
    network: Network = Network()
    training: Descent = Descent()


class DeepLimit(Classification):
    """A trained flow with more and more layers, beside the flow.

    Once with its own weights, and `draws` times with one of so many `groups` of its neurons, drawn
    anew for each layer.
    """

    kind: Literal["deep_limit"]  # pyright: ignore[reportIncompatibleVariableOverride]
    layers: Annotated[tuple[Count, ...], Field(min_length=2)] = (8, 16, 32, 64, 128, 256, 512)
    groups: Count = 4
    draws: Count = 32

    @model_validator(mode="after")
    def _one_stage(self) -> DeepLimit:
        network = self.network
        if len(network.widths) > 1 or network.path != "steps" or network.layers is not None:
            raise ValueError("network must be a flow of one stage with weights constant in pieces")
        if network.neurons % self.groups:
            raise ValueError("groups must divide network.neurons")
        if any(count % network.pieces for count in self.layers):
            raise ValueError("layers must be multiples of network.pieces")
        return self


Target = Literal["flow", "cube", "nearest", "mirror"]
Output = Literal["tangent", "unit", "free"]


class Equivariant(LessonSpec):
    """One layer of attention with H heads fitted to permutation-equivariant maps of the sphere.

    `heads`: numbers of heads that are trained; `random`: those whose scores are drawn at random,
    the values being the best ones.
    """

    kind: Literal["equivariant"]
    dims: tuple[Dim, ...] = (2, 3)
    tokens: Several = 4
    heads: tuple[Count, ...] = (1, 2, 4, 8, 16, 32, 64)
    random: tuple[Count, ...] = (4, 16, 64, 256)
    targets: tuple[Target, ...] = ("flow", "cube", "nearest", "mirror")
    outputs: tuple[Output, ...] = ("tangent", "unit", "free")
    seeds: Count = 3
    samples: Count = 4096
    batch: Count = 128
    steps: Count = 2000
    rate: Positive = 0.02


class Steering(LessonSpec):
    """Tokens steered from random places to random targets by controls constant in pieces.

    - `tokens`: the numbers N that are tried, with one piece for every `tokens_per_piece` of them.
    - `attention` and `neurons`: which of Q, K, V and of w, a, b are controls.
    - `horizons`: where the cost is looked at; `prompts`: whether one control is asked to serve two
      prompts; `cloud`: tokens of a measure that is steered to another one (0: none).
    """

    kind: Literal["steering"]
    tokens: Annotated[tuple[Count, ...], Field(min_length=1)] = (2, 5, 10, 20)
    dim: Dim = 6
    on_sphere: bool = True
    attention: bool = True
    neurons: Whole = 16
    tokens_per_piece: Count = 7
    steps: Count = 40
    horizons: tuple[Positive, ...] = (0.5, 1.0, 2.0, 4.0)
    prompts: bool = True
    cloud: Whole = 64


class FeedForwardMap(LessonSpec):
    """A feed-forward layer with some wells against attention, over β and the layer's strength."""

    kind: Literal["feedforward"]
    betas: Annotated[tuple[Positive, ...], Field(min_length=1)] = (2.0, 3.5, 5.0, 7.0, 9.0, 12.0)
    strengths: tuple[Positive, Positive] = (1e-3, 0.5)
    points: Count = 10
    wells: Count = 3
    tokens: Dim = 128
    starts: Count = 16
    horizon: Positive = 8.0


Free = Literal["beta", "value", "heads", "layer"]


class OnDemand(LessonSpec):
    """Fields trained to make k clusters of random tokens of the circle at an asked depth.

    `free`: what is trained, each by itself; `tests`: fresh starts; `width`: β of the counting.
    """

    kind: Literal["clusters"]
    clusters: Annotated[tuple[Count, ...], Field(min_length=1)] = (2, 3, 4, 5, 6)
    free: Annotated[tuple[Free, ...], Field(min_length=1)] = ("beta", "heads", "layer")
    tokens: Dim = 96
    horizon: Positive = 10.0
    steps: Count = 30
    rate: Positive = 0.05
    tests: Count = 50
    width: Positive = 24.0


class ParticleFit(LessonSpec):
    """Particle models fitted to the states of a transformer with tied layers.

    The first `training` prompts are fitted, the others are held out; `batch` prompts a step.
    """

    kind: Literal["particle_fit"]
    model: str = "rxnmapper"
    prompts: Annotated[tuple[str, ...], Field(min_length=2)]
    training: Count = 12
    steps: Count = 60
    rate: Positive = 0.02
    batch: Count = 2

    @model_validator(mode="after")
    def _some_held_out(self) -> ParticleFit:
        if self.training >= len(self.prompts):
            raise ValueError("training must leave prompts to be held out")
        return self


# kind → spec; the function that carries it out stands under the same kind in learn/build.py.
KINDS: dict[str, type[LessonSpec]] = {
    "classification": Classification,
    "deep_limit": DeepLimit,
    "equivariant": Equivariant,
    "steering": Steering,
    "feedforward": FeedForwardMap,
    "clusters": OnDemand,
    "particle_fit": ParticleFit,
}


def load_lesson(path: str | Path) -> Any:
    """Read a lesson from a TOML file; complaints are one `ValueError` of one line."""
    tree = read_toml(path)
    kind = tree.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}: choose one.")
    try:
        return KINDS[kind].model_validate(tree)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None
