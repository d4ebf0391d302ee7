"""How deep a random transformer may be: collapse of tokens, depth scales, trainability diagram."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.theory.propagation import (
    Floats,
    RandomBlock,
    gradient_norms,
    perceptron_map,
    perceptron_slopes,
    propagate,
    through_block,
)
from metastable.theory.softmax import softmax_overlaps


@dataclasses.dataclass(frozen=True)
class Collapse:
    """How 1 − ρ goes to 0: "exponential" e^{−rate·l}, "power" l^{−rate}, "cubic" x ↦ rate·x³.

    A rate ≤ 0 says that collapse is not approached: two tokens that nearly agree part again.
    """

    kind: str
    rate: float


def collapse(block: RandomBlock) -> Collapse:
    """Law of 1 − ρ near rank collapse, block by block.

    With F = σ_v² from attention, K = q' of the perceptron and χ = σ_w⁴ E φ'(h)² (K = F = 1 and
    χ/K for "peri"): near ρ = 1 attention loses the gap, g' = O(g³), and the perceptron takes χ g.
    - "post": exponential, rate log[(s² + α_a² F)(s² + α_m² K)/(s²(s² + α_m² χ))];
    - "pre" and "peri" (s = 1): q grows by c = α_a² F + α_m² K a block, so a power law with exponent
      1 − α_m² χ/c: without a perceptron 1 − ρ falls like 1/l, with one more slowly;
    - no skip, no perceptron, a normalisation: cubic, 1−ρ ↦ β²(n−1)/n² (1−ρ)³, doubly exponential
      in depth, as Dong et al., arXiv:2103.03404, bound it for any weights.

    Derived here. For ReLU χ = K, and the next order is (1−ρ)^{3/2}: it makes ρ → 1 even without
    attention, where the power or rate given here is 0.
    """
    s, (a, m) = block.skip**2, np.square((block.attention, block.mlp))
    n, placed = block.tokens, block.placement
    if placed == "none":
        raise ValueError('placement must be "pre", "post" or "peri", got "none": q has no limit.')
    if s == 0 and m == 0:
        return Collapse("cubic", block.beta**2 * (n - 1) / n**2)
    force, kernel = block.value**2, perceptron_map(block, 1.0, 0.0)[0]
    slope = perceptron_slopes(block, 1.0, 0.0)[0]
    if placed == "post":
        out = math.inf if s == 0 else (s + a * force) * (s + m * kernel) / s / (s + m * slope)
        return Collapse("exponential", math.log(out))
    if placed == "peri":
        force, kernel, slope = 1.0, 1.0, slope / kernel
    if s != 1:
        raise ValueError(f"skip must be 1 for {placed!r} here, got {block.skip}.")
    return Collapse("power", float(1 - m * slope / (a * force + m * kernel)))


def fixed_point(block: RandomBlock) -> float:
    """Largest stable correlation below 1 that the stack holds, or 1.0 where tokens collapse.

    The first root of log(x'/x) with x = 1 − ρ, from x = 1 down; for "pre" and "peri" the limit of a
    long stream (q = 10⁴), where ρ moves slowly to where branches and stream agree.

    >>> fixed_point(RandomBlock(placement="post"))
    1.0
    """
    q = 1.0 if block.placement == "post" else 1e4

    def growth(x: float) -> float:
        after, gap = through_block(block, q, x * q)[-1]
        return math.log(gap / after / x)

    grid = np.geomspace(1.0, 1e-4, 30)
    values = [growth(x) for x in grid]
    for k in range(1, len(grid)):
        if values[k - 1] < 0 <= values[k]:
            root: Any = brentq(growth, grid[k], grid[k - 1], xtol=1e-12)
            return 1 - float(root)
    return 1.0


def correlation_depth(decorrelation: Any) -> float:
    """Depth ξ in blocks at which 1 − ρ has fallen to 1/e of its first value, or inf.

    `decorrelation` holds 1 − ρ before the first block and after each; log(1 − ρ) is taken as linear
    in between. Theory and networks are read by this one function.
    """
    x = np.asarray(decorrelation, dtype=float)
    below = np.flatnonzero(x <= x[0] / math.e)
    if not len(below):
        return math.inf
    k = int(below[0])
    high, low = math.log(x[k - 1] / x[0]), math.log(max(x[k] / x[0], 1e-300))
    return k - 1 + (high + 1) / (high - low)


def residual_scale_for_depth(
    depth: float, block: RandomBlock, *, correlation: float = 0.0, rtol: float = 1e-4
) -> float:
    """Factor of both residual scales at which the correlation depth ξ is `depth` blocks.

    ξ falls with the factor where a branch makes tokens agree; found by bisection of log ξ between
    factors 1e−3 and 10. Raises where no factor does it, as for branches that hold tokens apart.

    >>> block = RandomBlock(placement="post", mlp=0.0)
    >>> round(residual_scale_for_depth(12, block, correlation=0.2), 2)
    0.45
    """
    if not depth > 0:
        raise ValueError(f"depth must be positive, got {depth}.")
    longest = int(4 * depth) + 4

    def excess(log_factor: float) -> float:
        state, x = (1.0, 1 - correlation), [1 - correlation]
        scaled = block.scaled(math.exp(log_factor))
        while len(x) <= longest and x[-1] > x[0] / math.e:
            state = through_block(scaled, *state)[-1]
            x.append(state[1] / state[0])
        return math.log(min(correlation_depth(x), float(longest)) / depth)

    low, high = math.log(1e-3), math.log(10.0)
    if excess(high) >= 0:
        raise ValueError(f"depth must be reached by a factor in [1e-3, 10]; {depth} blocks is not.")
    root: Any = brentq(excess, low, high, xtol=rtol / 4)
    return math.exp(root)


@dataclasses.dataclass(frozen=True)
class Trainability:
    """What becomes of tokens and gradients, by residual scale (rows) and β (columns).

    `remaining`: 1 − ρ after the last block over that before the first (0: rank collapse);
    `gradients`: mean square before the first block over that after the last; `shares`: E Σ_j w_j²
    of the first attention, near 1 where a row looks at one token only (entropy collapse).
    """

    scales: Floats
    betas: Floats
    remaining: Floats
    gradients: Floats
    shares: Floats

    def trainable(self, factor: float = 10.0, share: float = 0.5) -> Any:
        """Where 1/e of 1 − ρ remains, gradients keep within `factor`, and Σw² below `share`."""
        calm = np.abs(np.log(self.gradients)) < math.log(factor)
        return (self.remaining >= 1 / math.e) & calm & (self.shares < share)


def trainability_diagram(
    block: RandomBlock, depth: int, scales: Any, betas: Any, *, correlation: float = 0.0
) -> Trainability:
    """Trainability diagram of a stack: `block` with its residual scales times `scales`, at `betas`.

    After arXiv:2505.24333, whose diagram has the same two ways to fail (rank collapse, entropy
    collapse); its thresholds were not read, so those of `Trainability.trainable` are ours.
    """
    scales, betas = np.asarray(scales, float), np.asarray(betas, float)
    found = np.empty((3, len(scales), len(betas)))
    for j, beta in enumerate(betas):
        for i, scale in enumerate(scales):
            one = dataclasses.replace(block.scaled(scale), beta=float(beta))
            path = propagate(one, depth, correlation=correlation)
            share, _ = softmax_overlaps(beta**2 * (1 - correlation), correlation, block.tokens)
            gradient = gradient_norms(one, depth, correlation=correlation)[0]
            remaining = path.gap[-1] / path.square[-1] / (1 - correlation)
            found[:, i, j] = remaining, gradient, share
    return Trainability(scales, betas, *found)
