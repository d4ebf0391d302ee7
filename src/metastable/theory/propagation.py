"""Signal propagation at random weights: overlaps of tokens through a deep, wide transformer.

A stream of n tokens in R^d is followed by two numbers, q = ⟨x_i, x_i⟩/d and the gap
g = q − ⟨x_i, x_j⟩/d, so ρ = 1 − g/q is the correlation of two tokens. Weights are independent
Gaussians, fresh in every block; as d → ∞ a block then acts on (q, g) alone. The gap and not the
overlap is followed because rank collapse is g/q → 0, which ρ near 1 would round away.

Sources: the programme (overlap maps, softmax as a random energy model, trainability diagram) is
that of Giorlandino and Goldt, arXiv:2505.24333, of which only the abstract was at hand; the
formulas are derived here. Before it: Dong et al., arXiv:2103.03404; Noci et al., arXiv:2206.03126.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from metastable.theory.softmax import gauss, overlap_table, softmax_overlaps, softmax_spread

Floats = NDArray[np.float64]
State = tuple[float, float]  # q and the gap g

PLACEMENTS = ("none", "pre", "post", "peri")


@dataclasses.dataclass(frozen=True)
class RandomBlock:
    """A transformer block at random weights: attention, then a perceptron, each in a residual.

    x ← s x + α f(x), with f attention or perceptron, and the normalisation N (root mean square)
    placed "none"; "pre": s x + α f(N x); "post": N(s x + α f(x)); "peri": s x + α N f(N x).

    - `beta`: standard deviation σ_q σ_k of the logits of independent tokens of mean square 1;
    - `value` σ_v, of values and output together; `weight` σ_w, of both matrices of the perceptron;
    - `attention`, `mlp`: the residual scales α; 0 leaves that part out; `skip`: s.

    The default `weight` lets a ReLU perceptron keep the mean square: σ_w⁴/2 = 1.
    """

    tokens: int = 128
    placement: Literal["none", "pre", "post", "peri"] = "pre"
    beta: float = 1.0
    value: float = 1.0
    weight: float = 2**0.25
    attention: float = 1.0
    mlp: float = 1.0
    skip: float = 1.0
    activation: Literal["relu", "gelu", "tanh", "linear"] = "relu"

    def __post_init__(self) -> None:
        if self.tokens < 2:
            raise ValueError(f"tokens must be at least 2, got {self.tokens}; one has no overlap.")
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement must be one of {PLACEMENTS}, got {self.placement!r}.")
        if self.activation not in _SLOPES:
            raise ValueError(f"activation must be one of {[*_SLOPES]}, got {self.activation!r}.")
        for name in ("beta", "value", "weight", "attention", "mlp", "skip"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and ≥ 0, got {getattr(self, name)}.")
        if not self.attention + self.mlp:
            raise ValueError("attention or mlp must be positive, got 0 and 0: nothing happens.")

    def scaled(self, factor: float) -> RandomBlock:
        """The block with both residual scales times `factor`."""
        return dataclasses.replace(self, attention=factor * self.attention, mlp=factor * self.mlp)


def attention_map(block: RandomBlock, q: float, gap: float, width: float = math.inf) -> State:
    """(q, g) after attention: q' = σ_v²(q − g + g A), g' = σ_v² g (A − B).

    Logits s_ij = ⟨q_i, k_j⟩/√d_h have covariance β² Q_ik Q_jl. What the keys share moves a whole
    row and softmax takes it off, so row i sees n independent logits of variance a² = β² q g, and
    two rows see logits of correlation ρ = 1 − g/q. Outputs overlap by σ_v² Σ_jl w_ij w_kl Q_jl.

    Derived here. Exact as d_h → ∞ at any n; off by O(1/d_h) else. No mask. At finite `width` d the
    tokens' own parts overlap by ± g d^{−1/2}, and rows look a little more at those that overlap:
    E w_j w_l ∝ 1 + a² Q_jl/g adds a²/d to A and ρa²/d to B (leading order, a² below log n).
    """
    share, lost = _overlaps(block, q, gap)
    extra = block.beta**2 * q * gap / width
    share, lost = share + extra, lost + extra * gap / q
    return block.value**2 * (q - gap + gap * share), block.value**2 * gap * lost


def perceptron_map(block: RandomBlock, q: float, gap: float) -> State:
    """(q, g) after the perceptron: q' = σ_w² E φ(h)², g' = σ_w² E (φ(h) − φ(h'))²/2.

    h, h' Gaussian of variance σ_w² q and correlation ρ. ReLU is the arc-cosine kernel (Cho and
    Saul, NeurIPS 2009): q' = σ_w⁴ q/2, g' = q' [1 − cos θ − (sin θ − θ cos θ)/π], cos θ = ρ.
    Others by Gauss–Hermite over (h + h')/2 and (h − h')/2, free of cancellation. As d → ∞.
    """
    s = block.weight**2
    if block.activation == "relu":
        theta = 2 * math.asin(min(1.0, math.sqrt(gap / (2 * q))))
        shared = (math.sin(theta) - theta * math.cos(theta)) / math.pi
        return s * s * q / 2, s * s * q / 2 * (2 * math.sin(theta / 2) ** 2 - shared)
    mean, half, w = _pair(s * q, s * gap)
    f = _FUNCTIONS[block.activation]
    a, b = f(mean + half), f(mean - half)
    return float(s * np.sum(w * a * a)), float(s * np.sum(w * (a - b) ** 2) / 2)


@dataclasses.dataclass(frozen=True)
class Propagation:
    """(q, g) before the first block and after each, `square` and `gap` of shape (depth + 1,)."""

    square: Floats
    gap: Floats

    @property
    def correlation(self) -> Floats:
        return 1 - self.gap / self.square


def propagate(
    block: RandomBlock, depth: int, *, correlation: float = 0.0, square: float = 1.0
) -> Propagation:
    """Overlaps of tokens through `depth` random blocks, from mean square q and correlation ρ.

    With fresh weights a branch is uncorrelated with the stream, so squares and gaps add:
    (q, g) ← s² (q, g) + α² f(q, g), with (q, g) ↦ (1, g/q) wherever a normalisation stands.

    Valid as width → ∞ at fixed depth and n: fluctuations of overlaps are O(d^{−1/2}), the bias of
    their mean O(depth/d). ρ in [0, 1].

    >>> post = propagate(RandomBlock(placement="post", mlp=0.0), depth=3).correlation
    >>> [round(float(rho), 3) for rho in post]
    [0.0, 0.008, 0.023, 0.051]
    """
    states = [(square, (1 - correlation) * square)]
    for _ in range(depth):
        states.append(through_block(block, *states[-1])[-1])
    return Propagation(*np.array(states, dtype=float).T)


def finite_width(
    block: RandomBlock, width: int, depth: int, *, correlation: float
) -> tuple[Floats, Floats]:
    """Mean of ρ over random networks of width d to order 1/d, and its standard deviation.

    What fluctuates at order d^{−1/2} is the part m of the stream that tokens share. A branch with
    shared part f turns it into s²|m|² + 2sα⟨m, f⟩ + α²|f|², and ⟨m, f⟩/d has mean 0 and variance
    |m|²|f|²/d (per axis), with |m|² = p + g/n; |f|² itself varies by 4/d (two matrices) or 2/d (the
    wide perceptron). The Gaussian law of (log p, log g) is carried through the maps at the six
    points mean ± √3 deviations, right to second order. As ρ is concave in p, its mean lies below
    that of d = ∞. Overlaps of tokens' own parts act through `attention_map`.

    Derived here. Leading order in depth·α²/d. Fluctuations of pairs in the perceptron are left out.
    Start: √ρ c + √(1−ρ) e_i with c Gaussian, ρ > 0. Two arrays of shape (depth + 1,).
    """
    if not 0 < correlation < 1:
        raise ValueError(f"correlation must lie in (0, 1) here, got {correlation}.")
    s, n = block.skip, block.tokens
    mean, cov = np.log([correlation, 1 - correlation]) - [1 / width, 0.0], np.diag([2 / width, 0.0])
    found = [_logistic(mean, cov)]
    for part, alpha in _parts(block) * depth:
        points, noises = _six(mean, cov)
        after = []
        for (p, g), noise in zip(np.exp(points), noises, strict=True):
            if block.placement == "post":
                p, g = p / (p + g), g / (p + g)
            out, lost = _branch(block, part, p + g, g, width)
            shared, varies = out - lost, 0.0 if block.placement == "peri" else 4.0 - 2 * part
            p_next, g_next = s**2 * p + alpha**2 * shared, s**2 * g + alpha**2 * lost
            variance = 4 * (s * alpha) ** 2 * (p + g / n) * (shared + lost / n)
            variance = (variance + varies * alpha**4 * shared**2) / width / p_next**2
            log_p = math.log(p_next) + math.sqrt(variance) * noise - variance / 2
            after.append([log_p, math.log(g_next)])
        after = np.array(after)
        if block.placement == "post":
            after -= np.logaddexp(after[:, :1], after[:, 1:])
        mean, cov = after.mean(0), np.cov(after.T, bias=True)
        if part == _parts(block)[-1][0]:
            found.append(_logistic(mean, cov))
    rho, spread = np.array(found).T
    return rho, spread


def gradient_norms(block: RandomBlock, depth: int, *, correlation: float = 0.0) -> Floats:
    """Mean square of the gradient by token and axis before each block and after the last.

    Backward from independent gradients of mean square 1; followed are G = ⟨γ_i, γ_i⟩/d and
    P = ⟨γ_i, γ_j⟩/d. With y = A − 2 E Σw³ + E(Σw²)² and b = B(1 − B):
    values   G ← σ_v²(A G + (n−1) B P),            P ← σ_v²((1−A) G/(n−1) + (1−B) P)
    queries  G ← G + β²σ_v² g² y G,                P ← P + β²σ_v² g² b P
    keys     G ← G + β²σ_v² g (q y G + (n−1) p b P) = G + k,   P ← P − k/(n−1)
    perceptron  G ← σ_w⁴ E φ'(h)² G,               P ← σ_w⁴ E φ'(h)φ'(h') P
    and s² (G, P) + α² (…)/(squares that normalisations divide by).

    Derived here, under the usual assumption that backward and forward weights may be taken as
    independent. Exact as d → ∞ but for b, which stands for Σ_j w_ij w_kj(1 − w_ij − w_kj + B) and
    is right for flat and for frozen rows. Shape (depth + 1,).
    """
    states = [(1.0, 1 - correlation)]
    for _ in range(depth):
        states += through_block(block, *states[-1])
    parts = _parts(block)
    g, norms = np.array([1.0, 0.0]), [1.0]
    for k in range(depth * len(parts) - 1, -1, -1):
        (part, alpha), (q, gap) = parts[k % len(parts)], states[k]
        inside = _inside(block, q, gap)
        out = (attention_map, perceptron_map)[part](block, *inside)[0]
        branch = (_attention_back, _perceptron_back)[part](block, *inside, g) * alpha**2
        branch /= {"pre": q, "peri": q * out}.get(block.placement, 1.0)
        g = block.skip**2 * g + branch
        if block.placement == "post":
            g /= block.skip**2 * q + alpha**2 * out
        if k % len(parts) == 0:
            norms.append(float(g[0]))
    return np.array(norms[::-1])


def _six(mean: Floats, cov: Floats) -> tuple[Floats, Floats]:
    """Points of a plane Gaussian and of a noise of variance 1 beside it, at √3 deviations."""
    values, vectors = np.linalg.eigh(cov)
    arms = math.sqrt(3) * (vectors * np.sqrt(np.maximum(values, 0.0))).T
    points = mean + np.concatenate([arms, -arms, np.zeros((2, 2))])
    return points, math.sqrt(3) * np.array([0.0, 0.0, 0.0, 0.0, 1.0, -1.0])


def _logistic(mean: Floats, cov: Floats) -> tuple[float, float]:
    """Mean and deviation of ρ = p/(p + g) for Gaussian log p − log g."""
    x, w = gauss(16)
    spread = math.sqrt(max(0.0, cov[0, 0] + cov[1, 1] - 2 * cov[0, 1]))
    rho = 1 / (1 + np.exp(mean[1] - mean[0] - spread * x))
    average = float(w @ rho)
    return average, math.sqrt(max(0.0, float(w @ (rho - average) ** 2)))


def _parts(block: RandomBlock) -> list[tuple[int, float]]:
    """Attention (0) and perceptron (1) with their residual scales, those that are not left out."""
    return [(k, alpha) for k, alpha in enumerate((block.attention, block.mlp)) if alpha]


def _inside(block: RandomBlock, q: float, gap: float) -> State:
    """What a branch sees of the stream."""
    return (1.0, gap / q) if block.placement in ("pre", "peri") else (q, gap)


def _branch(block: RandomBlock, part: int, q: float, gap: float, width: float = math.inf) -> State:
    """What a branch adds to the stream, before its residual scale."""
    inside = _inside(block, q, gap)
    out, lost = perceptron_map(block, *inside) if part else attention_map(block, *inside, width)
    return (1.0, lost / out) if block.placement == "peri" else (out, lost)


def through_block(block: RandomBlock, q: float, gap: float) -> list[State]:
    """States after each part of one block."""
    states: list[State] = []
    for part, alpha in _parts(block):
        branch = _branch(block, part, q, gap)
        q, gap = (block.skip**2 * x + alpha**2 * y for x, y in zip((q, gap), branch, strict=True))
        if block.placement == "post":
            q, gap = 1.0, gap / q
        states.append((q, gap))
    return states


def _overlaps(block: RandomBlock, q: float, gap: float) -> tuple[float, float]:
    """A and A − B, from a table unless collapse is all there is and needs relative accuracy."""
    if abs(q - 1) < 1e-9 and block.skip and 0.02 < block.beta <= 6:
        share, lost = overlap_table(block.beta, block.tokens)
        return float(share(gap)), gap * float(lost(gap))
    return softmax_overlaps(block.beta**2 * q * gap, min(1.0, max(0.0, 1 - gap / q)), block.tokens)


def _attention_back(block: RandomBlock, q: float, gap: float, g: Floats) -> Floats:
    n, v, variance = block.tokens, block.value**2, block.beta**2 * q * gap
    share, lost = _overlaps(block, q, gap)
    both, own, logits = share - lost, softmax_spread(variance, n), block.beta**2 * v * gap
    cross = both * (1 - both)
    square, pair = g
    query = logits * gap * np.array([own * square, cross * pair])
    key = logits * (q * own * square + (n - 1) * (q - gap) * cross * pair)
    values = [
        share * square + (n - 1) * both * pair,
        (1 - share) * square / (n - 1) + (1 - both) * pair,
    ]
    return v * np.array(values) + query + key * np.array([1.0, -1 / (n - 1)])


def _perceptron_back(block: RandomBlock, q: float, gap: float, g: Floats) -> Floats:
    return np.array(perceptron_slopes(block, q, gap)) * g


def perceptron_slopes(block: RandomBlock, q: float, gap: float) -> State:
    """σ_w⁴ E φ'(h)² and σ_w⁴ E φ'(h) φ'(h')."""
    s = block.weight**2
    if block.activation == "relu":
        return s * s / 2, s * s * (0.5 - math.asin(math.sqrt(gap / (2 * q))) / math.pi)
    mean, half, w = _pair(s * q, s * gap)
    a, b = (_SLOPES[block.activation](h) for h in (mean + half, mean - half))
    return float(s * s * np.sum(w * a * a)), float(s * s * np.sum(w * a * b))


def _pair(variance: float, gap: float) -> tuple[Floats, Floats, Floats]:
    """(h + h')/2, (h − h')/2 and weights for two Gaussians of that variance and gap."""
    x, w = gauss(64)
    mean, half = math.sqrt(max(0.0, variance - gap / 2)) * x, math.sqrt(gap / 2) * x
    return mean[:, None], half[None, :], w[:, None] * w[None, :]


def _bell(h: Floats) -> Floats:
    return np.exp(-h * h / 2) / math.sqrt(2 * math.pi)


_FUNCTIONS: dict[str, Any] = {"gelu": lambda h: h * ndtr(h), "tanh": np.tanh, "linear": lambda h: h}
_SLOPES: dict[str, Any] = {
    "relu": lambda h: (h > 0) * 1.0,
    "gelu": lambda h: ndtr(h) + h * _bell(h),
    "tanh": lambda h: 1 - np.tanh(h) ** 2,
    "linear": np.ones_like,
}
