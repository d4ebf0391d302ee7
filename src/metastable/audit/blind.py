"""A classifier that never asks M: if it tells protected from control, the control is not matched.

Das et al. (arXiv:2406.16201) found that such classifiers beat published membership attacks on the
benchmarks these were made for: there, sets differed by date or source before any model saw them.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from scipy.stats import rankdata

from metastable.audit.statistics import Interval
from metastable.core import checks
from metastable.core.progress import Bar

LONGEST = 3  # characters of an n-gram
MOST = 4000  # n-grams kept, by how many documents hold them
DIRECTIONS = 400  # of the features, so that cost stays bounded for thousands of documents
PENALTY = 0.3
STEPS = 2000


@dataclass(frozen=True)
class Blind:
    """Area under the curve of the classifier on documents it was not fitted to.

    `areas` are the area itself and those under permuted labels, from which `auc` follows.
    """

    auc: Interval
    areas: tuple[float, ...] = ()

    @classmethod
    def of(cls, areas: Sequence[float], confidence: float = 0.95) -> Blind:
        """The area between the quantiles of the same under permuted labels."""
        rank = int((1 - confidence) / 2 * len(areas) + 1e-9)
        null = np.sort(areas[1:]) - 0.5
        limits = np.clip([areas[0] - null[-rank], areas[0], areas[0] - null[rank - 1]], 0, 1)
        # Rounded: a share rank/(B + 1) lies beyond either limit, and rounding must not part ties.
        return cls(Interval(*map(float, limits.round(12))), tuple(map(float, areas)))

    @property
    def matched(self) -> bool:
        """Whether chance lies in the interval."""
        return not self.mirrored and self.auc.low <= 0.5

    @property
    def mirrored(self) -> bool:
        """Whether the area lies below what permuted labels show.

        A classifier errs so often only if documents resemble those of the other set more than
        those of their own: copies that stand in both, or pairs.
        """
        return self.auc.high < 0.5


def separate_blindly(
    protected: Sequence[str],
    control: Sequence[str],
    *,
    folds: int = 10,
    confidence: float = 0.95,
    draws: int = 199,
    seed: int = 0,
) -> Blind:
    """Try to tell protected documents from controls by their texts alone.

    Logistic regression on n-grams, length and compressibility; each document is scored by a fit to
    the other folds, and areas are averaged over folds. The interval is the area and the quantiles
    of the same under permuted labels: folds share documents, and limits that took scores for
    independent raised up to four times their false alarms. Give whole documents, not windows:
    the more text, the less can hide.

    >>> found = separate_blindly(["aaa bbb"] * 20, ["ccc ddd"] * 20)
    >>> round(found.auc.mid, 6), found.matched
    (1.0, False)
    """
    sizes = (len(protected), len(control))
    if min(sizes) < 2:
        raise ValueError(
            "protected and control must have at least 2 documents each; "
            f"got {sizes[0]} and {sizes[1]}: bring more."
        )
    folds = min(checks.integer("folds", folds, 2), *sizes)
    rank = int((1 - confidence) / 2 * (checks.integer("draws", draws, 1) + 1) + 1e-9)
    if rank < 1:
        raise ValueError(
            f"draws must be enough for confidence {confidence:g}; got {draws}: use at least "
            f"{int(2 / (1 - confidence))}."
        )
    features = _rotated(blind_features([*protected, *control]))
    labels = np.zeros((sum(sizes), 1 + draws))
    labels[: sizes[0]] = 1.0
    random = np.random.default_rng([checks.seed(seed), 4])
    fold = np.concatenate([random.permutation(size) % folds for size in sizes])
    areas = np.zeros(1 + draws)
    for k in range(folds):
        # Shuffled inside each fold: with both classes as frequent in all, none looks rare.
        labels[fold == k, 1:] = random.permuted(labels[fold == k, 1:], axis=0)
    with Bar("comparing the sets") as bar:
        for k in range(folds):
            held = fold == k
            weights, offsets = fit_logistic(features[~held], labels[~held])
            areas += _areas(features[held] @ weights + offsets, labels[held]) / folds
            bar.update((k + 1) / folds)
    return Blind.of(areas.tolist(), confidence)


def blind_features(texts: Sequence[str]) -> NDArray[np.float64]:
    """Rows of unit length of n-gram weights, then length and zlib ratio, standardised.

    n-grams of 1 … 3 characters; weight (1 + log count) · log(documents / documents with it), as
    is usual for texts. They are chosen by their number of documents, without the labels.
    """
    counts = [
        Counter(text[i : i + n] for n in range(1, LONGEST + 1) for i in range(len(text) - n + 1))
        for text in texts
    ]
    spread = Counter(gram for own in counts for gram in own)
    kept = {gram: held for gram, held in spread.most_common(MOST) if 1 < held < len(texts)}
    column = {gram: k for k, gram in enumerate(kept)}
    table = np.zeros((len(texts), len(kept)))
    for row, own in zip(table, counts, strict=True):
        for gram in own.keys() & column.keys():
            row[column[gram]] = 1 + np.log(own[gram])
    table *= np.log(len(texts) / np.array(list(kept.values())))
    table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    lengths = np.array([len(text) for text in texts], float)
    squeezed = np.array([len(zlib.compress(t.encode(), 9, wbits=-15)) for t in texts])
    plain = np.column_stack([np.log1p(lengths), squeezed / np.maximum(lengths, 1)])
    deviation = plain.std(0)
    plain = (plain - plain.mean(0)) / np.where(deviation > 1e-12, deviation, 1.0)
    # Each of the two weighs as much as all n-grams of a text together.
    return np.column_stack([table, plain])


def fit_logistic(
    features: NDArray[np.float64], labels: NDArray[np.float64], penalty: float = PENALTY
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights w and offsets b of minimal Σ log(1 + e^{−(2y−1)(wᵀx+b)}) + penalty·|w|²/2.

    One fit for each column of labels in {0, 1}, all at once: the curvature never exceeds
    (XᵀX)/4 + penalty, whose factors serve every step of every fit (Böhning and Lindsay, Ann. Inst.
    Statist. Math. 40, 1988). Features (n, r), labels (n, fits) → (r, fits) and (fits,).

    >>> weights, offsets = fit_logistic(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), 1.0)
    >>> weights.round(3).tolist(), offsets.round(3).tolist()
    ([[0.445]], [-0.222])
    """
    x = np.column_stack([features, np.ones(len(features))])
    ridge = np.append(np.full(features.shape[1], penalty), 1e-9)
    factor = cho_factor(x.T @ x / 4 + np.diag(ridge))
    theta = np.zeros((x.shape[1], labels.shape[1]))
    for _ in range(STEPS):
        slope = x.T @ (expit(x @ theta) - labels) + ridge[:, None] * theta
        step = cho_solve(factor, slope)
        theta -= step
        if np.abs(step).max() < 1e-6:
            break
    return theta[:-1], theta[-1]


def _areas(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Area under the curve, column by column, from sums of ranks."""
    positive = labels.sum(0)
    ranks = (rankdata(scores, axis=0) * labels).sum(0)
    return (ranks - positive * (positive + 1) / 2) / (positive * (len(labels) - positive))


def _rotated(features: np.ndarray) -> np.ndarray:
    """The same rows in their leading directions; while all are kept, the fit does not change."""
    u, s, _ = np.linalg.svd(features, full_matrices=False)
    return (u * s)[:, :DIRECTIONS]
