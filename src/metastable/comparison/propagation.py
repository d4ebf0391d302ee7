"""Random transformers against the overlap maps: one test for all layers together."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import ndtr

from metastable.core.verdict import Verdict, not_applicable, sampled, settle
from metastable.theory.propagation import RandomBlock, finite_width, propagate
from metastable.theory.trainability import correlation_depth

SOURCE = "derived"


@dataclasses.dataclass(frozen=True)
class JointTest:
    """Largest |t| over layers, the layer it stands at, its critical value at 1 %, and p."""

    statistic: float
    layer: int
    critical: float
    p: float


def joint_test(observed: Any, expected: Any, *, draws: int = 4000, seed: int = 0) -> JointTest:
    """Test that the mean over seeds is `expected` in every layer.

    Statistic: max_l |t_l|, t_l = (mean − expected)/(standard error). Layers of one network are
    strongly dependent, so neither Student's law nor Bonferroni's fits. The law of the maximum is
    simulated: Gaussian curves, as many as there are seeds, with the observed correlation of layers
    shrunk, R = (1−λ) R̂ + λ I with λ = 1/seeds, go through the same statistic. Shrinking makes up
    for R̂ of few seeds having too low a rank, which alone would make the maximum too small.

    Valid for seeds that are about Gaussian: at 10 seeds and curves like random walks of 48 layers
    it rejects a true expectation about as often as it says (measured in the tests). Shapes
    (seeds, layers) and (layers,); layers in which all seeds agree to rounding must be left out.
    """
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    seeds, layers = observed.shape
    if seeds < 4 or expected.shape != (layers,):
        raise ValueError(
            f"observed must be (seeds ≥ 4, layers) and expected (layers,); got {observed.shape} "
            f"and {expected.shape}."
        )
    t = np.abs(_t(observed - expected))
    shrink = 1 / seeds
    mixed = (1 - shrink) * np.corrcoef(observed.T) + shrink * np.eye(layers)
    factor = np.linalg.cholesky(mixed).T
    rng = np.random.default_rng(seed)
    largest = [
        np.abs(_t(rng.standard_normal((seeds, layers)) @ factor)).max() for _ in range(draws)
    ]
    p = (1 + np.sum(largest >= t.max())) / (draws + 1)
    return JointTest(float(t.max()), int(t.argmax()), float(np.quantile(largest, 0.99)), float(p))


def compare_propagation(
    block: RandomBlock, width: int, correlations: Any, *, correlation: float, limit: bool = False
) -> tuple[Verdict, ...]:
    """Rows on random networks: all layers' mean ρ, and the depth ξ at which 1 − ρ fell to 1/e.

    `correlations` (seeds, depth + 1) is what `random_stack` measured from a start of `correlation`;
    expected is `finite_width`, or with `limit` the maps of infinite width. The error of ξ comes
    from the foretold spread of seeds: their own, of ten, is too rough where 1 − ρ falls slowly.
    """
    rho = np.asarray(correlations, float)
    depth = rho.shape[1] - 1
    expected, spread = finite_width(block, width, depth, correlation=correlation)
    if limit:
        expected = propagate(block, depth, correlation=correlation).correlation
    test = joint_test(rho[:, 1:], expected[1:])
    where = f"{block.placement} norm, d = {width}{', limit d = ∞' if limit else ''}"
    claim = f"depth at which 1 − ρ falls to 1/e, {where}"
    foretold, found = correlation_depth(1 - expected), correlation_depth(1 - rho.mean(0))
    if np.isfinite([foretold, found]).all():
        error = depth_error(expected, spread, len(rho))
        p = 2 * float(ndtr(-abs(found - foretold) / error))
        second = sampled(claim, SOURCE, foretold, found, p, error)
    else:
        second = not_applicable(claim, SOURCE, f"it does not within {depth} layers")
    first = sampled(
        f"correlation of tokens in all {depth} layers, {where}: largest |t|",
        SOURCE, test.critical, test.statistic, test.p, reason=f"layer {test.layer + 1}",
    )  # fmt: skip
    return settle([first, second])


def depth_error(correlation: Any, spread: Any, seeds: int) -> float:
    """Standard error of ξ of the mean of so many seeds: that of ρ there over the slope of ρ."""
    at, layers = correlation_depth(1 - np.asarray(correlation)), np.arange(len(correlation))
    slope = np.interp(at, layers, np.gradient(correlation))
    return float(np.interp(at, layers, spread) / np.sqrt(seeds) / slope)


def _t(curves: np.ndarray) -> np.ndarray:
    """Student's t of each layer's mean."""
    return curves.mean(0) / (curves.std(0, ddof=1) / np.sqrt(len(curves)))
