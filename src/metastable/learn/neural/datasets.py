"""Points with classes to tell apart: spirals of the plane, and handwritten digits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metastable.learn.spec import Digits, Spirals


class Labeled(NamedTuple):
    """Points (n, d) and their classes (n,)."""

    points: np.ndarray
    labels: np.ndarray


def draw_spirals(
    points: int = 1000, classes: int = 2, turns: float = 1.0, noise: float = 0.02, seed: int = 0
) -> Labeled:
    """Points on `classes` arms r(cos φ, sin φ), φ = 2π(turns·r + class/classes), r in [0.1, 1].

    Classes are equally likely, r is uniform, and each coordinate has Gaussian noise.

    >>> draw_spirals(6).labels.tolist()
    [0, 1, 0, 1, 0, 1]
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(points) % classes
    r = rng.uniform(0.1, 1.0, points)
    phi = 2 * np.pi * (turns * r + labels / classes)
    places = r[:, None] * np.column_stack([np.cos(phi), np.sin(phi)])
    return Labeled(places + noise * rng.standard_normal((points, 2)), labels)


def digit_images() -> Any:
    """scikit-learn's 1797 handwritten digits as it hands them out."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise ValueError(
            "digits need the package scikit-learn: install the extra [models], as README says."
        ) from None
    return load_digits()


def read_digits() -> Labeled:
    """scikit-learn's 1797 digits as points of R^64, centred, with mean square norm 64."""
    images = digit_images()
    points = images.data - images.data.mean(axis=0)
    return Labeled(points / np.sqrt(np.mean(points**2)), images.target)


def draw_data(spec: Spirals | Digits, seed: int) -> tuple[Labeled, Labeled]:
    """Training and held-out data: as many fresh spirals, or a random fifth of the digits."""
    if isinstance(spec, Spirals):
        drawn = draw_spirals(2 * spec.points, spec.classes, spec.turns, spec.noise, seed)
        parts = [slice(spec.points), slice(spec.points, None)]
    else:
        drawn = read_digits()
        order = np.random.default_rng(seed).permutation(len(drawn.labels))
        parts = np.split(order, [len(order) - len(order) // 5])
    train, held = (Labeled(drawn.points[part], drawn.labels[part]) for part in parts)
    return train, held
