"""How alike tokens are: inner products, moments, effective rank, distance from consensus."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import gammaln

from metastable.core import checks
from metastable.measures import Density, Gaussian, Measure, Points
from metastable.measures.spectral.zonal import polynomials
from metastable.observe.density import density_power
from metastable.observe.pairs import BLOCK, carrying

ROWS = 128  # of a block of pairs
DRAWN = 2048  # tokens that stand for a Gaussian


@dataclass(frozen=True, eq=False)
class Similarity:
    """Distribution of the similarity of two different tokens; see `similarity`."""

    mean: float
    near: float  # mass of the pairs with similarity ≥ 1 − delta
    delta: float
    edges: np.ndarray  # (bins + 1,) from −1 to 1
    histogram: np.ndarray  # (bins,) masses, sum 1

    def __repr__(self) -> str:
        return f"Similarity(mean {self.mean:.4g}, {self.near:.2%} of pairs ≥ 1 − {self.delta:g})"


def similarity(
    measure: Points | Density | Gaussian,
    delta: float = 1e-3,
    bins: int = 200,
    tokens: int | None = None,
) -> Similarity:
    """Distribution of the cosine ⟨x_i,x_j⟩/‖x_i‖‖x_j‖ over pairs of different tokens.

    The pair i ≠ j has mass w_i w_j / Σ_{k≠l} w_k w_l. `near` is the share of pairs with cosine
    ≥ 1 − `delta`, the order parameter of the published phase diagrams (arXiv:2312.10794:
    delta = 1e−3), and the histogram has `bins` equal bins on [−1, 1], the same for every measure.
    After mergers give the original number of `tokens`: weight w then stands for w·tokens tokens at
    one place, whose pairs have cosine 1. Time O(n²d), memory of one block of rows. A measure with
    all mass on one token has no pair; the token is then compared with itself. A zero token in R^d
    has cosine 0 with all others.

    Of a `Density` two independent tokens: Σ_ℓ (Σ_m |μ̂_ℓm|²) P_ℓ(t) is the density of their cosine
    t against that of uniform tokens. Of a `Gaussian` the mean is exact; the histogram and `near`
    are those of 2048 tokens drawn from it (seed 0).

    >>> from metastable.measures import simplex
    >>> similarity(simplex(4))
    Similarity(mean -0.25, 0.00% of pairs ≥ 1 − 0.001)
    """
    checks.positive("delta", delta)
    bins = checks.integer("bins", bins, 1)
    checks.defined_for("similarity", measure, Points, Density, Gaussian)
    if isinstance(measure, Density):
        return _of_density(measure, delta, bins)
    if isinstance(measure, Gaussian):
        drawn = similarity(measure.sample(DRAWN), delta, bins)
        return replace(drawn, mean=float(np.sum(mean_direction(measure) ** 2)))
    x, w, _ = carrying(measure)
    x = _directions(x)
    tokens = None if tokens is None else checks.integer("tokens", tokens, 1)
    own = 0.0 if tokens is None else np.maximum(w * (w - 1 / tokens), 0).sum()
    if len(w) == 1:
        own = 1.0
    histogram, near = np.zeros(bins), own
    histogram[-1] = own
    shares, close = _count_pairs(x, w, delta, bins)
    histogram, near = histogram + shares, near + close
    total = histogram.sum()
    # ‖Σwx‖² minus its diagonal: exact, and no sum over pairs.
    across = np.sum((w @ x) ** 2) - w**2 @ np.sum(x**2, axis=1)
    mean = float(np.clip((across + own) / total, -1, 1))
    edges = np.linspace(-1, 1, bins + 1)
    return Similarity(mean, float(near / total), delta, edges, histogram / total)


def _count_pairs(x: np.ndarray, w: np.ndarray, delta: float, bins: int) -> tuple[np.ndarray, float]:
    """Masses 2 w_i w_j of the pairs i < j by bins of their cosine, and of those ≥ 1 − delta.

    Rows in blocks that stay in the cache; equal weights are counted, in a third of the time.
    """
    histogram, near, equal = np.zeros(bins), 0.0, bool((w == w[0]).all())
    step = max(1, min(ROWS, BLOCK // len(w)))
    for start in range(0, len(w), step):
        block = slice(start, start + step)
        cosines = x[block] @ x[start:].T
        above = np.triu_indices(cosines.shape[0], 1, cosines.shape[0])
        right = cosines.shape[0]
        cosines = np.concatenate([cosines[above], cosines[:, right:].ravel()])
        np.clip(cosines, -1, 1, out=cosines)
        tight = cosines >= 1 - delta
        cosines += 1
        cosines *= bins / 2
        index = np.minimum(cosines.astype(int), bins - 1)
        if equal:
            near += float(np.count_nonzero(tight))
            histogram += np.bincount(index, minlength=bins)
            continue
        masses = 2 * w[block, None] * w[start:]
        masses = np.concatenate([masses[above], masses[:, right:].ravel()])
        near += float(masses[tight].sum())
        histogram += np.bincount(index, masses, bins)
    factor = 2 * float(w[0]) ** 2 if equal else 1.0
    return factor * histogram, factor * near


def _of_density(density: Density, delta: float, bins: int) -> Similarity:
    power = density_power(density, density.degree)
    edges = np.linspace(-1, 1, bins + 1)
    share = lambda low, high: _pair_mass(power, density.dim, low, high)
    histogram = np.array([share(a, b) for a, b in pairwise(edges)])
    mean = float(np.sum(mean_of(density) ** 2))
    return Similarity(mean, share(1 - delta, 1.0), delta, edges, histogram / histogram.sum())


def _pair_mass(power: np.ndarray, dim: int, low: float, high: float) -> float:
    """∫ Σ_ℓ power_ℓ P_ℓ(cos θ) sin^{d−2}θ dθ over the angles of a bin, over that of all angles."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    start, end = np.arccos(high), np.arccos(low)
    theta = start + (nodes + 1) / 2 * (end - start)
    q = polynomials(np.cos(theta), dim, len(power) - 1)
    top = polynomials(np.ones(1), dim, len(power) - 1)  # q_ℓ(1)² is the number of harmonics
    values = (power / top[:, 0]) @ q * np.sin(theta) ** (dim - 2)
    norm = np.sqrt(np.pi) * np.exp(gammaln((dim - 1) / 2) - gammaln(dim / 2))
    return float((end - start) / 2 * (weights @ values) / norm)


def pairwise_similarity(measure: Points) -> tuple[np.ndarray, np.ndarray]:
    """All cosines of pairs i < j, row by row of the upper triangle, and their masses (sum 1).

    Stores n(n−1) numbers; `similarity` gives the histogram of any number of tokens.
    """
    checks.defined_for("pairwise_similarity", measure, Points)
    checks.fits_memory(
        f"the similarities of {measure.count} tokens",
        4.0 * measure.count**2,
        "use similarity(...), which keeps a histogram only",
    )
    x, w = _directions(np.asarray(measure.points)), np.asarray(measure.weights)
    i, j = np.triu_indices(measure.count, 1)
    masses = w[i] * w[j]
    total = masses.sum()
    return np.clip(x @ x.T, -1, 1)[i, j], masses / total if total > 0 else masses


def singular_values(measure: Points | Density | Gaussian) -> np.ndarray:
    """Singular values of the matrix with rows √w_i x_i, largest first.

    Their squares are the eigenvalues of the second moment ∫ xxᵀ dμ; on the sphere they sum to 1.

    >>> from metastable.measures import polygon
    >>> (singular_values(polygon(3)) ** 2).round(6).tolist()
    [0.5, 0.5]
    """
    if not isinstance(measure, Points):
        return np.sqrt(np.maximum(np.linalg.eigvalsh(second_moment(measure)), 0))[::-1]
    x, w, _ = carrying(measure)
    return np.linalg.svd(np.sqrt(w)[:, None] * x, compute_uv=False)


def effective_rank(measure: Points | Density | Gaussian) -> float:
    """Effective rank exp(−Σ p_k log p_k) of the token matrix, p_k = σ_k / Σσ.

    σ are the `singular_values`. Source: Roy and Vetterli, EUSIPCO 2007, with tokens counted by
    mass. From 1 (one direction) to min(n, d) (all directions alike); 0 for the zero matrix.

    >>> from metastable.measures import orthogonal
    >>> round(effective_rank(orthogonal(4, 6)), 6)
    4.0
    """
    values = singular_values(measure)
    p = values[values > 0] / max(values.sum(), np.finfo(float).tiny)
    return float(np.exp(-np.sum(p * np.log(p)))) if p.size else 0.0


def residual(measure: Points | Density | Gaussian) -> float:
    """Relative distance from consensus, ‖X − 1x̄ᵀ‖/‖X‖ in the Frobenius norm weighted by mass.

    x̄ = Σ w_i x_i. Rank collapse (Dong, Cordonnier, Loukas, arXiv:2103.03404) is its decay to 0.
    On the sphere it is √(1 − r²) with r the order parameter; for equal tokens 0.

    >>> from metastable.measures import polygon
    >>> round(residual(polygon(5)), 12)
    1.0
    """
    if not isinstance(measure, Points):
        total, mean = np.trace(second_moment(measure)), mean_of(measure)
        return float(np.sqrt(max(total - mean @ mean, 0.0) / total)) if total > 0 else 0.0
    x, w, _ = carrying(measure)
    scale = np.sqrt(w @ np.sum(x**2, axis=1))
    spread = np.sqrt(w @ np.sum((x - w @ x) ** 2, axis=1))
    return float(spread / scale) if scale > 0 else 0.0


def _directions(x: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1.0)


def mean_of(measure: Measure) -> np.ndarray:
    """∫ x dμ, (d,)."""
    checks.defined_for("mean_of", measure, Points, Density, Gaussian)
    if isinstance(measure, Points):
        x, w, _ = carrying(measure)
        return w @ x
    if isinstance(measure, Gaussian):
        return np.asarray(measure.mean)
    assert isinstance(measure, Density)
    if measure.axis is not None:
        axis = np.asarray(measure.axis)
        return float(measure.integrate(lambda x: x @ axis)) * axis
    return np.array([float(measure.integrate(lambda x, i=i: x[:, i])) for i in range(measure.dim)])


def second_moment(measure: Measure) -> np.ndarray:
    """∫ xxᵀ dμ, (d, d); of a density exact, since it is a polynomial of degree 2.

    Around an axis a it is m aaᵀ + (1 − m)/(d − 1) (I − aaᵀ), m = ∫⟨x,a⟩² dμ.
    """
    checks.defined_for("second_moment", measure, Points, Density, Gaussian)
    if isinstance(measure, Points):
        x, w, _ = carrying(measure)
        return (w[:, None] * x).T @ x
    if isinstance(measure, Gaussian):
        mean, factor = np.asarray(measure.mean), np.asarray(measure.factor)
        return np.outer(mean, mean) + factor @ factor.T
    assert isinstance(measure, Density)
    d = measure.dim
    if measure.axis is not None:
        axis = np.asarray(measure.axis)
        along = float(measure.integrate(lambda x: (x @ axis) ** 2))
        line = np.outer(axis, axis)
        return along * line + (1 - along) / (d - 1) * (np.eye(d) - line)
    moment = np.zeros((d, d))
    for i in range(d):
        for j in range(i + 1):
            entry = measure.integrate(lambda x, i=i, j=j: x[:, i] * x[:, j])
            moment[i, j] = moment[j, i] = float(entry)
    return moment


def mean_direction(measure: Gaussian) -> np.ndarray:
    """E[x/‖x‖] of a Gaussian, (d,).

    With 1/‖x‖ = (2/√π)∫_0^∞ e^{−u²‖x‖²} du it is, along the i-th principal axis with mean m_i and
    variance s_i, (2/√π)∫_0^∞ m_i/(1 + 2u²s_i) Π_j (1 + 2u²s_j)^{−1/2} e^{−u²m_j²/(1 + 2u²s_j)} du.
    """
    from scipy.integrate import quad

    factor = np.asarray(measure.factor)
    variances, axes = np.linalg.eigh(factor @ factor.T)
    variances = np.maximum(variances, 0.0)
    means = axes.T @ np.asarray(measure.mean)
    scale = float(np.sqrt(variances.sum() + means @ means))
    if scale == 0:
        return np.zeros_like(means)

    def integrand(v: float, i: int) -> float:
        u = v / ((1 - v) * scale)  # from [0, 1) to [0, ∞), in units of the typical length
        spread = 1 + 2 * u**2 * variances
        decay = np.exp(-np.sum(u**2 * means**2 / spread) - 0.5 * np.log(spread).sum())
        return float(means[i] / spread[i] * decay / ((1 - v) ** 2 * scale))

    along = [quad(integrand, 0.0, 1.0, (i,), epsabs=1e-12)[0] for i in range(len(means))]
    return axes @ (2 / np.sqrt(np.pi) * np.array(along))
