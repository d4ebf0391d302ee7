"""Centres of a sequence of tokens on the sphere, by brute force."""

from __future__ import annotations

import math

import numpy as np

from metastable.measures import uniform


def sequences(samples: int, tokens: int, dim: int, seed: int) -> np.ndarray:
    """Independent uniform sequences, (samples, tokens, dim)."""
    return np.asarray(uniform(samples * tokens, dim, seed).points).reshape(samples, tokens, dim)


def strong_mask(points: np.ndarray, angle: float) -> np.ndarray:
    """Which tokens of each sequence lie farther than `angle` from every earlier token."""
    found = np.empty(points.shape[:2], bool)
    for row, sequence in zip(found, points, strict=True):
        near = np.tril(sequence @ sequence.T >= math.cos(angle), -1)
        row[:] = ~near.any(axis=1)
    return found


def parked_mask(points: np.ndarray, angle: float) -> np.ndarray:
    """Which tokens of each sequence lie farther than `angle` from every earlier centre."""
    found = np.zeros(points.shape[:2], bool)
    found[:, 0] = True
    for k in range(1, points.shape[1]):
        cosine = np.einsum("sjd,sd->sj", points[:, :k], points[:, k])
        found[:, k] = ~(found[:, :k] & (cosine >= math.cos(angle))).any(axis=1)
    return found


def count_strong(
    samples: int, tokens: int, dim: int, angle: float, seed: int
) -> tuple[float, float]:
    """Mean number of strong centres of uniform sequences, and its standard error."""
    return _mean(strong_mask(sequences(samples, tokens, dim, seed), angle))


def count_parked(
    samples: int, tokens: int, dim: int, angle: float, seed: int
) -> tuple[float, float]:
    """Mean number of ordinary centres of uniform sequences, and its standard error."""
    return _mean(parked_mask(sequences(samples, tokens, dim, seed), angle))


def _mean(mask: np.ndarray) -> tuple[float, float]:
    counts = mask.sum(axis=1)
    return float(counts.mean()), float(counts.std(ddof=1) / math.sqrt(len(counts)))
