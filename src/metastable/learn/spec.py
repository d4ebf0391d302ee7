"""What to learn, as specs: one model per kind of experiment, TOML in and out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

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


class LearningSpec(Spec):
    """What all experiments in learning have beside kind and name: a seed.

    >>> Classification().training.steps
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

    kind: Literal["digits"] = "digits"


class FlowNet(Model):
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
    def _whole_pieces(self) -> FlowNet:
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


class Classification(LearningSpec):
    """A neural ODE or ResNet that tells classes apart, and how its classes collapse."""

    kind: Literal["classification"] = "classification"
    data: Annotated[Spirals | Digits, Field(discriminator="kind")] = Spirals()
    network: FlowNet = FlowNet()
    training: Descent = Descent()


class DeepLimit(Classification):
    """A trained flow with more and more layers, beside the flow.

    Once with its own weights, and `draws` times with one of so many `groups` of its neurons, drawn
    anew for each layer.
    """

    kind: Literal["deep_limit"] = "deep_limit"  # pyright: ignore[reportIncompatibleVariableOverride]
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


class Equivariant(LearningSpec):
    """One layer of attention with H heads fitted to permutation-equivariant maps of the sphere.

    `heads`: numbers of heads that are trained; `random`: those whose scores are drawn at random,
    the values being the best ones.
    """

    kind: Literal["equivariant"] = "equivariant"
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


class Steering(LearningSpec):
    """Tokens steered from random places to random targets by controls constant in pieces.

    - `tokens`: the numbers N that are tried, with one piece for every `tokens_per_piece` of them.
    - `attention` and `neurons`: which of Q, K, V and of w, a, b are controls.
    - `horizons`: where the cost is looked at; `prompts`: whether one control is asked to serve two
      prompts; `cloud`: tokens of a measure that is steered to another one (0: none).
    """

    kind: Literal["steering"] = "steering"
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


class FeedForwardMap(LearningSpec):
    """A feed-forward layer with some wells against attention, over β and the layer's strength."""

    kind: Literal["feedforward"] = "feedforward"
    betas: Annotated[tuple[Positive, ...], Field(min_length=1)] = (2.0, 3.5, 5.0, 7.0, 9.0, 12.0)
    strengths: tuple[Positive, Positive] = (1e-3, 0.5)
    points: Count = 10
    wells: Count = 3
    tokens: Dim = 128
    starts: Count = 16
    horizon: Positive = 8.0


Free = Literal["beta", "value", "heads", "layer"]


class ClustersOnDemand(LearningSpec):
    """Fields trained to make k clusters of random tokens of the circle at an asked depth.

    `free`: what is trained, each by itself; `tests`: fresh starts; `width`: β of the counting.
    """

    kind: Literal["clusters"] = "clusters"
    clusters: Annotated[tuple[Count, ...], Field(min_length=1)] = (2, 3, 4, 5, 6)
    free: Annotated[tuple[Free, ...], Field(min_length=1)] = ("beta", "heads", "layer")
    tokens: Dim = 96
    horizon: Positive = 10.0
    steps: Count = 30
    rate: Positive = 0.05
    tests: Count = 50
    width: Positive = 24.0


class ParticleFit(LearningSpec):
    """Particle models fitted to the states of a transformer with tied layers.

    The first `training` prompts are fitted, the others are held out; `batch` prompts a step.
    """

    kind: Literal["particle_fit"] = "particle_fit"
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


class TeacherStudent(LearningSpec):
    """A student learns from what a teacher's layer of step ε does to random covariances.

    `exact`: the exact layer instead of the published truncation; `samples`: pairs of covariances, a
    quarter of them for validation.
    """

    seed: Seed = 1
    exact: bool = False
    step: Positive = 0.1
    dim: Dim = 64
    key_dim: Count = 36
    samples: Several = 300


class GaussianBeta(TeacherStudent):
    """One layer, one unknown β* = 1: batch and stochastic gradient descent, Newton, Gauss–Newton.

    The thesis prints neither ε nor the rate nor the number of samples everywhere: only rate·ε² can
    be read from its figures, about 1.1e−3, and ε = 0.1 with the rate 0.11 stands for it.
    """

    kind: Literal["gaussian_beta"] = "gaussian_beta"
    dim: Dim = 164
    key_dim: Count = 66
    rate: Positive = 0.11
    steps: Count = 80


class GaussianDepth(TeacherStudent):
    """`depth` equal layers, one unknown β* = 1, batch gradient descent.

    The loss is steep, and differs by orders of magnitude between settings: without a `rate`, a
    fifth of 2/L″(1) is taken.
    """

    kind: Literal["gaussian_depth"] = "gaussian_depth"
    depth: Count = 5
    dim: Dim = 44
    key_dim: Count = 16
    samples: Several = 100
    rate: Positive | None = None
    steps: Count = 3000


class GaussianMatrices(TeacherStudent):
    """All of W, V, Q, K from pairs of covariances, student and teacher drawn independently.

    - `optimizer`: "sgd" (rate 0.1), "adam" (rate 0.01, fading out) or "levenberg"
      (Levenberg–Marquardt on all pairs at once, where an epoch is one step).
    - `single`: gradients in single precision, matrices in double; about twice as fast.
    - `patience`: stop early after this many looks (a hundredth of the epochs each) without gain.
    - `landscape`: add gradient and Hessian spectrum at the flattest part of the curve and its end.
    """

    kind: Literal["gaussian_matrices"] = "gaussian_matrices"
    optimizer: Literal["sgd", "adam", "levenberg"] = "sgd"
    rate: Positive | None = None
    batch: Count = 32
    epochs: Count = 500
    single: bool = False
    landscape: bool = False
    patience: Count | None = None


class GaussianTokens(LearningSpec):
    """All four matrices from `samples` prompts of `tokens` tokens through softmax attention."""

    kind: Literal["gaussian_tokens"] = "gaussian_tokens"
    seed: Seed = 1
    step: Positive = 0.5
    dim: Dim = 4
    key_dim: Count = 2
    samples: Several = 40
    tokens: Several = 64
    steps: Count = 3000


class GaussianSteering(LearningSpec):
    """One random Gaussian carried to another of equal rank by matrices that change with depth.

    `rank`: of both covariances, left out: full; `effort`: price λ of the action of the path.
    """

    kind: Literal["gaussian_steering"] = "gaussian_steering"
    seed: Seed = 1
    dim: Dim = 3
    rank: Count | None = None
    layers: Count = 8
    effort: NonNegative = 0.01
    steps: Count = 3000
