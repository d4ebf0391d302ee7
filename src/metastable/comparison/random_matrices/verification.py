"""The closed form of a Gaussian layer against samples: through its affine map, and by attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from metastable.comparison.random_matrices.draws import RandomLayer, draw_layer
from metastable.core import checks
from metastable.core.progress import Bar
from metastable.flows.solvers.gaussian_layers import layer_map
from metastable.measures import Points
from metastable.theory.gaussian import SampleError, effective_tokens, logit_variance, sample_error

QUERIES = 256  # tokens at which single velocities and attention weights are looked at


@dataclass(frozen=True)
class Errors:
    """Relative errors of one N: root mean squares over the repeats, and each of them.

    `velocity` is the error of the vector c + Bx at single tokens; `effective` the number 1/Σp² of
    tokens a softmax averages (median over tokens), beside its theory.
    """

    samples: int
    mean: float
    cov: float
    mean_each: tuple[float, ...]
    cov_each: tuple[float, ...]
    expected: SampleError
    velocity: float | None = None
    effective: float | None = None
    effective_expected: float | None = None


@dataclass(frozen=True)
class ErrorSeries:
    """Errors against N of one layer, by one way of moving its samples."""

    title: str
    dim: int
    keys: int
    deviation: float  # median standard deviation of the logits
    loudest: float  # 99th percentile of the variance of the logits
    rows: tuple[Errors, ...]

    def slope(self, name: str) -> float:
        """Exponent of N in the error `name` ("mean", "cov", "velocity"), by least squares."""
        n = np.log([row.samples for row in self.rows])
        return float(np.polyfit(n, np.log([getattr(row, name) for row in self.rows]), 1)[0])

    def slope_error(self, name: str) -> float:
        """Standard error of `slope`, from the bands in which single errors fall.

        Velocities have no band of their own and are given that of the covariance.
        """
        name = "cov" if name == "velocity" else name
        n = np.log([row.samples for row in self.rows])
        spread = []
        for row in self.rows:
            low, high = getattr(row.expected, f"{name}_band")
            single = (high - low) / (2 * 1.96 * getattr(row.expected, name))
            spread.append(single / math.sqrt(len(row.cov_each)))
        centered = n - np.mean(n)
        return float(np.linalg.norm(centered * spread) / (centered @ centered))

    @property
    def covered(self) -> float:
        """Share of single errors, of mean and covariance, inside their 95 % bands."""
        inside = []
        for row in self.rows:
            for name in ("mean", "cov"):
                low, high = getattr(row.expected, f"{name}_band")
                inside += [low <= error <= high for error in getattr(row, f"{name}_each")]
        return float(np.mean(inside))


@dataclass(frozen=True)
class Verification:
    """Three series: the affine map on samples, attention in a calm layer, attention as drawn."""

    affine: ErrorSeries
    calm: ErrorSeries
    loud: ErrorSeries


def verify(
    dim: int = 300, keys: int = 128, samples: int = 20_000, repeats: int = 8, seed: int = 0, *,
    calm_dim: int = 16, calm_keys: int = 8, calm_samples: int = 32_000,
    progress: bool | None = None,
) -> Verification:  # fmt: skip
    """Measure how samples approach the closed form m⁺, Σ⁺ of one random layer (`draw_layer`).

    - `affine`: X ↦ X + WVm + BX on N samples. It tests the arithmetic and the 1/√N law, nothing
      about attention; the errors have a known law (`sample_error`).
    - `calm`: genuine softmax attention among N tokens, in a layer of its own size whose logits are
      scaled until xᵀAᵀΣAx ≤ 1 for 99 % of the tokens, from `calm_samples`/1000 tokens upwards.
      The closed form is its limit: errors fall like N^{−1/2}.
    - `loud`: the same attention in the layer as drawn. With d = 300 logits deviate by 16, each
      token attends to one or two others, and no reachable N comes near the closed form.

    Time: about N² exponentials for each of the last two.
    """
    for name, value in (("dim", dim), ("keys", keys), ("repeats", repeats)):
        checks.integer(name, value, 1)
    checks.integer("samples", samples, 100)
    checks.integer("calm_samples", calm_samples, 4000)
    layer = draw_layer(dim, keys, seed=seed)
    calm = draw_layer(calm_dim, calm_keys, seed=seed).quieter(0.9)
    sizes, calm_sizes = _sizes(samples, 2.0), _sizes(calm_samples, 3.0)
    with Bar("verify", progress) as bar:
        total = 2 * samples * dim / 20 + 2.0 * samples**2 + 2.0 * calm_samples**2
        done = 0.0

        def spent(cost: float) -> None:
            nonlocal done
            done += cost
            bar.update(min(done / total, 1.0))

        return Verification(
            affine=_series("affine map", layer, keys, sizes, repeats, seed, _affine, spent),
            calm=_series("attention, calm", calm, calm_keys, calm_sizes, 64, seed, _attend, spent),
            loud=_series("attention, as drawn", layer, keys, sizes, 1, seed, _attend, spent),
        )


def _sizes(largest: int, decades: float) -> list[int]:
    return [round(largest * 10 ** (-k / 2)) for k in range(round(2 * decades), -1, -1)]


def _series(
    title: str, layer: RandomLayer, keys: int, sizes: Sequence[int], repeats: int, seed: int,
    move: Callable[[RandomLayer, np.ndarray], np.ndarray], spent: Callable[[float], None],
) -> ErrorSeries:  # fmt: skip
    measure = layer.measure
    mean, factor = layer_map(measure.mean, measure.factor, layer.field)
    mean, cov = np.asarray(mean), np.asarray(factor @ factor.T)
    probe = np.asarray(measure.sample(4096, seed=seed + 10**6).points)
    logits = logit_variance(probe, np.asarray(measure.cov), layer.bilinear)
    median = float(np.median(logits))
    rows = []
    for index, n in enumerate(sizes):
        # Attention costs n²: small samples are repeated often, the largest once.
        times = repeats if move is _affine else int(np.clip(0.2 * (sizes[-1] / n) ** 2, 1, repeats))
        each, looks = [], []
        for k in range(times):
            points = np.asarray(measure.sample(n, seed=seed + 1 + 1000 * index + k).points)
            moved = move(layer, points)
            each.append(_error(moved, mean, cov))
            if move is _attend:
                looks.append(_look(layer, points, moved))
            spent(n * measure.dim / 20 if move is _affine else 1.0 * n**2)
        means, covs = zip(*each, strict=True)
        extra = ()
        if looks:
            gaps, counts = zip(*looks, strict=True)
            extra = _rms(gaps), float(np.mean(counts)), effective_tokens(median, n)
        expected = sample_error(mean, cov, n)
        rows.append(Errors(n, _rms(means), _rms(covs), means, covs, expected, *extra))
    loudest = float(np.quantile(logits, 0.99))
    return ErrorSeries(title, measure.dim, keys, math.sqrt(median), loudest, tuple(rows))


def _affine(layer: RandomLayer, points: np.ndarray) -> np.ndarray:
    return points + _closed_velocity(layer, points)


def _closed_velocity(layer: RandomLayer, points: np.ndarray) -> np.ndarray:
    mean, cov = np.asarray(layer.measure.mean), np.asarray(layer.measure.cov)
    return (mean + points @ layer.bilinear.T @ cov) @ layer.output.T


def _attend(layer: RandomLayer, points: np.ndarray) -> np.ndarray:
    return points + np.asarray(layer.field.velocity(Points(points, on_sphere=False)))


def _look(layer: RandomLayer, points: np.ndarray, moved: np.ndarray) -> tuple[float, float]:
    """Relative error of the velocity at single tokens, and how many tokens they attend to."""
    some = points[:QUERIES]
    closed = _closed_velocity(layer, some)
    gap = moved[:QUERIES] - some - closed
    logits = some @ layer.bilinear.T @ points.T
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    effective = weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1)
    return math.sqrt(float(np.sum(gap**2) / np.sum(closed**2))), float(np.median(effective))


def _error(points: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> tuple[float, float]:
    """Relative errors of the empirical mean and covariance."""
    centered = points - points.mean(axis=0)
    gaps = points.mean(axis=0) - mean, centered.T @ centered / len(points) - cov
    size = np.linalg.norm
    return float(size(gaps[0]) / size(mean)), float(size(gaps[1]) / size(cov))


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(value**2 for value in values) / len(values))
