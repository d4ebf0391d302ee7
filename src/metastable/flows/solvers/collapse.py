"""Collapsed tokens: which are one already, and the one that replaces them."""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import KDTree

from metastable.flows.mergers import Ledger

CROWD = 512  # beyond this many tokens, boxes come before pairs


def find_collapsed(
    x: np.ndarray, direction: np.ndarray, weights: np.ndarray, radius: float, turn: int
) -> np.ndarray:
    """Labels 0, 1, …, in order of first member, of groups within `radius` that are closing in.

    Crowds go into boxes of diagonal `radius`, placed anew each `turn` so that no border stays; then
    pairs join, the closest first. No group is wider than `radius`: chains of neighbours would
    swallow a whole forming cluster at once. Tokens that move apart stay apart however close they
    are, since on a separatrix neighbours leave for different clusters.
    """
    label = np.arange(len(x))
    if len(x) > CROWD:
        # Multiples of irrational numbers never repeat modulo 1.
        shift = (turn * np.sqrt(np.arange(2, x.shape[1] + 2))) % 1.0
        boxes = np.floor(x * (np.sqrt(x.shape[1]) / radius) + shift)
        box = np.unique(boxes, axis=0, return_inverse=True)[1].reshape(-1)
        label = np.where(_closing_in(x, direction, weights, box)[box], box, len(x) + label)
        label = np.unique(label, return_inverse=True)[1]
    alone = np.flatnonzero(np.bincount(label)[label] == 1)
    pairs = alone[KDTree(x[alone]).query_pairs(radius, output_type="ndarray")]
    gap, drift = (a[pairs[:, 1]] - a[pairs[:, 0]] for a in (x, direction))
    closing = np.sum(gap * drift, axis=1) <= 0
    nearest_first = np.argsort(np.linalg.norm(gap[closing], axis=1), kind="stable")
    free = np.ones(len(x), bool)
    for i, j in pairs[closing][nearest_first]:
        if free[i] and free[j]:
            free[[i, j]] = False
            label[j] = label[i]
    _, start, label = np.unique(label, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(start))[label]


def _closing_in(x: np.ndarray, u: np.ndarray, w: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Whether the spread Σ w‖x − mean‖² of each group shrinks, or is zero."""
    mass = np.bincount(label, w)
    off = lambda a: a - np.stack([np.bincount(label, w * c) / mass for c in a.T], axis=1)[label]
    return np.bincount(label, w * np.sum(off(x) * off(u), axis=1)) <= 0


def merge_collapsed(
    x: np.ndarray, label: np.ndarray, ledger: Ledger, log_time: float, log_wait: float
) -> np.ndarray:
    """Replace each group by one token at its retracted mean, and enter the mergers."""
    order = np.argsort(label, kind="stable")
    sizes = np.bincount(label)
    heads = np.cumsum(sizes) - sizes
    mean = np.add.reduceat((ledger.masses[:, None] * x)[order], heads, axis=0)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    groups = [g for g in np.split(order, heads[1:]) if g.size > 1]
    for first, *others in groups:
        for other in others:
            chord = np.linalg.norm(x[other] - x[first])
            angle = 2 * math.asin(min(chord / 2, 1.0))
            ledger.join(first, other, angle, log_time, log_wait)
            log_wait = -math.inf
    ledger.drop(np.delete(order, heads))
    return np.where((sizes > 1)[:, None], mean, x[order[heads]])  # the others to the last bit
