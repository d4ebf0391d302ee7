"""Neural collapse: how far the classes of a network have shrunk to the corners of a simplex.

Papyan, Han and Donoho, arXiv:2008.08186. Each number is 0 at full collapse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Collapse(NamedTuple):
    """NC1 … NC4 of one layer; NC3 and NC4 need a classifier and are nan without."""

    variability: float
    simplex_gap: float
    duality_gap: float
    disagreement: float


def class_means(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The mean of each class, minus the mean of the means: (k, d).

    >>> class_means(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1])).ravel().tolist()
    [-2.0, 2.0]
    """
    means = _means(features, labels)[0]
    return means - means.mean(axis=0)


def within_class_variability(features: np.ndarray, labels: np.ndarray) -> float:
    """NC1 = tr(Σ_W Σ_B⁺)/k: variance inside classes in units of that between them.

    Σ_B has rank min(k − 1, d): its other eigenvalues are rounding and are left out.
    """
    means = class_means(features, labels)
    k = len(means)
    _, lengths, axes = np.linalg.svd(means, full_matrices=False)
    rank = min(k - 1, means.shape[1])
    own, classes = _means(features, labels)
    inside = features - own[np.searchsorted(classes, labels)]
    spread = np.mean((inside @ axes[:rank].T) ** 2, axis=0)
    with np.errstate(divide="ignore"):
        return float(np.sum(spread / lengths[:rank] ** 2))


def simplex_gap(means: np.ndarray) -> float:
    """NC2: ‖G/‖G‖ − G*/‖G*‖‖ of the Gram matrix G of class means against a simplex's.

    G* = I − 11ᵀ/k: means of equal length at equal, and the largest possible, angles.
    """
    k = len(means)
    gram, simplex = means @ means.T, np.eye(k) - 1 / k
    return float(np.linalg.norm(_unit(gram) - _unit(simplex)))


def duality_gap(means: np.ndarray, matrix: np.ndarray) -> float:
    """NC3: ‖W/‖W‖ − M/‖M‖‖ of the classifier's rows W (k, d) against the class means M."""
    return float(np.linalg.norm(_unit(matrix) - _unit(means)))


def centre_disagreement(features: np.ndarray, labels: np.ndarray, answers: np.ndarray) -> float:
    """NC4: how often the classifier's answer is not the class whose mean is nearest."""
    means, classes = _means(features, labels)
    distances = ((features[:, None] - means) ** 2).sum(axis=-1)
    return float(np.mean(classes[distances.argmin(axis=1)] != answers))


def neural_collapse(
    features: np.ndarray,
    labels: np.ndarray,
    matrix: np.ndarray | None = None,
    offset: np.ndarray | float = 0.0,
) -> Collapse:
    """All four numbers, of features (n, d), their classes, and a classifier W x + offset."""
    features, labels = np.asarray(features), np.asarray(labels)
    means = class_means(features, labels)
    dual = disagreement = np.nan
    if matrix is not None:
        dual = duality_gap(means, matrix)
        answers = np.argmax(features @ np.asarray(matrix).T + offset, axis=1)
        disagreement = centre_disagreement(features, labels, answers)
    return Collapse(
        within_class_variability(features, labels), simplex_gap(means), dual, disagreement
    )


def _means(features: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each class (k, d), and the classes (k,)."""
    classes = np.unique(labels)
    return np.stack([features[labels == c].mean(axis=0) for c in classes]), classes


def _unit(matrix: np.ndarray) -> np.ndarray:
    return matrix / np.linalg.norm(matrix)
