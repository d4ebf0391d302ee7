"""Every kind of learning and of Gaussian study: its spec, and the function that carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from metastable.core.answer import Answer
from metastable.core.errors import one_line
from metastable.core.spec import Spec
from metastable.core.toml import read_toml

__all__ = ["KINDS", "load", "make", "run", "spec_class"]

# kind → class of its spec, and function(spec, checkpoint, progress) that returns an `Answer`.
# Imported on first use: most kinds need packages that the others do not.
KINDS = {
    "classification": (
        "metastable.learn.spec:Classification",
        "metastable.learn.neural.classification:learn_classes",
    ),
    "deep_limit": (
        "metastable.learn.spec:DeepLimit",
        "metastable.learn.neural.classification:learn_deep_limit",
    ),
    "equivariant": (
        "metastable.learn.spec:Equivariant",
        "metastable.learn.neural.equivariant:learn_equivariant",
    ),
    "steering": (
        "metastable.learn.spec:Steering",
        "metastable.learn.control.steering_experiment:learn_steering",
    ),
    "feedforward": (
        "metastable.learn.spec:FeedForwardMap",
        "metastable.learn.control.feedforward:learn_feedforward",
    ),
    "clusters": (
        "metastable.learn.spec:ClustersOnDemand",
        "metastable.learn.control.clusters:learn_clusters",
    ),
    "particle_fit": (
        "metastable.learn.spec:ParticleFit",
        "metastable.models.particles:learn_particles",
    ),
    "gaussian_beta": (
        "metastable.learn.spec:GaussianBeta",
        "metastable.learn.gaussian.experiments:learn_beta",
    ),
    "gaussian_depth": (
        "metastable.learn.spec:GaussianDepth",
        "metastable.learn.gaussian.experiments:learn_depth",
    ),
    "gaussian_matrices": (
        "metastable.learn.spec:GaussianMatrices",
        "metastable.learn.gaussian.experiments:learn_matrices",
    ),
    "gaussian_tokens": (
        "metastable.learn.spec:GaussianTokens",
        "metastable.learn.gaussian.tokens:learn_tokens",
    ),
    "gaussian_steering": (
        "metastable.learn.spec:GaussianSteering",
        "metastable.learn.gaussian.steering:learn_path",
    ),
    "gaussian": (
        "metastable.comparison.random_matrices.spec:GaussianStudy",
        "metastable.comparison.random_matrices.study:run_study",
    ),
}


def spec_class(kind: str) -> type[Spec]:
    """The class of the specs of a kind."""
    return _find(KINDS[kind][0])


def make(tree: Mapping[str, Any]) -> Spec:
    """The spec of a tree of plain values; bad input is a `ValueError` of one line."""
    kind = tree.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}: choose one.")
    try:
        return spec_class(kind).model_validate(tree)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None


def load(path: str | Path) -> Spec:
    """Read a spec of any of these kinds from a TOML file."""
    return make(read_toml(path))


def run(spec: Spec, checkpoint: Path | None = None, progress: bool | None = None) -> Answer:
    """Carry out a spec.

    `checkpoint` is a folder that exists, for the checkpoints of its trainings, one .npz file each;
    carried out again with the same folder, the work goes on where it was interrupted. `progress`:
    False shows no bar.
    """
    return _find(KINDS[spec.kind][1])(spec, checkpoint, progress)


def _find(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
