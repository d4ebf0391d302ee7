"""Initial measures: the ways to place tokens before attention moves them.

Every random start takes an integer `seed` and gives the same tokens on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.geometry.sphere import retract, uniform_points
from metastable.measures.points import Points


def uniform(tokens: int, dim: int, seed: int = 0) -> Points:
    """Independent uniform tokens on S^{dim−1}.

    >>> uniform(tokens=2000, dim=2, seed=0)
    Points(2000 tokens on the sphere S^1, mass 0.0005 each)
    """
    _check_size(tokens, dim)
    return Points(_uniform(seed, tokens, dim))


def _uniform(seed: int, count: int, dim: int) -> np.ndarray:
    """`uniform_points`, drawn for a power of two of tokens of which the first `count` are taken.

    Each token's numbers depend on its place alone, so that they are the same; and the slow
    compilation of the generator serves every count up to the next power of two.
    """
    padded = 1 << (count - 1).bit_length() if count <= 2**16 else count
    return np.asarray(uniform_points(_key(seed), padded, dim))[:count]


def orthogonal(tokens: int, dim: int, seed: int | None = None) -> Points:
    """Pairwise orthogonal tokens (tokens ≤ dim): coordinate axes, or a random frame with a seed."""
    _check_size(tokens, dim)
    if tokens > dim:
        raise ValueError(
            f"orthogonal tokens need tokens <= dim; got {tokens} tokens in dimension {dim}."
        )
    if seed is None:
        return Points(jnp.eye(tokens, dim))
    frame, upper = jnp.linalg.qr(jax.random.normal(_key(seed), (dim, tokens)))
    return Points((frame * jnp.sign(jnp.diag(upper))).T)


def von_mises_fisher(tokens: int, centre: Any, concentration: float, seed: int = 0) -> Points:
    """Independent tokens of density ∝ e^{κ⟨x,centre⟩} on the sphere.

    The inner product with the centre is drawn by Wood's rejection scheme (Comm. Statist. 23,
    1994), exact for every dimension and concentration κ ≥ 0.
    """
    checks.finite_array("centre", centre, 1)
    checks.nonnegative("concentration", concentration)
    centre = np.asarray(centre, float)
    dim = centre.size
    _check_size(tokens, dim)
    if np.linalg.norm(centre) == 0:
        raise ValueError("centre must be a nonzero vector; got zeros.")
    centre = centre / np.linalg.norm(centre)
    random = np.random.default_rng(checks.seed(seed))
    return Points(_vmf(random, tokens, centre, float(concentration)))


def _vmf(random: np.random.Generator, count: int, centre: np.ndarray, kappa: float) -> jax.Array:
    below = _vmf_depths(random, count, centre.size, kappa)
    across = random.standard_normal((count, centre.size))
    across -= np.outer(across @ centre, centre)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    radius = np.sqrt(below * (2 - below))
    return retract(jnp.asarray((1 - below)[:, None] * centre + radius[:, None] * across))


def _vmf_depths(random: np.random.Generator, count: int, dim: int, kappa: float) -> np.ndarray:
    """1 − ⟨x,centre⟩ of `count` tokens, every digit good however large κ is.

    Wood's envelope, written in v = (1 − w)/b: as κ → ∞ both κb → (d−1)/4 and the law of v have a
    limit, so that nothing cancels and a fixed share of the draws is accepted (at least 0.65).
    """
    # Halves keep the sum finite up to the largest float. Beyond 1e300 the law of κ(1 − w) is
    # that at 1e300 to rounding, and only the scale changes: b must not leave the normal floats.
    kappa, scale = min(kappa, 1e300), min(1.0, 1e300 / max(kappa, 1e300))
    b = (dim - 1) / 4 / (kappa / 2 + np.hypot(kappa / 2, (dim - 1) / 4))
    depths = np.empty(0)
    while depths.size < count:
        z = random.beta((dim - 1) / 2, (dim - 1) / 2, 2 * count)
        v = 2 * z / (1 - (1 - b) * z)
        # log of the density over the envelope, zero at its maximum v = 2/(1 + b).
        log_share = kappa * b * (2 / (1 + b) - v) + (dim - 1) * np.log(
            (1 + b) * (2 + (1 - b) * v) / 4
        )
        accept = log_share >= np.log(random.uniform(size=2 * count))
        depths = np.concatenate([depths, b * v[accept]])
    return scale * depths[:count]


def planted(
    tokens: int, dim: int, clusters: int, concentration: float = 100.0, seed: int = 0
) -> Points:
    """Tokens in `clusters` von Mises–Fisher bumps around uniformly drawn centres, equal shares."""
    _check_size(tokens, dim)
    checks.integer("clusters", clusters, 1)
    if clusters > tokens:
        raise ValueError(f"clusters must be <= tokens ({tokens}); got {clusters}.")
    checks.nonnegative("concentration", concentration)
    centres = _uniform(seed, clusters, dim)
    shares = np.diff(np.linspace(0, tokens, clusters + 1).astype(int))
    # One stream per cluster and seed: neighbouring seeds must not share numbers.
    parts = [
        _vmf(np.random.default_rng([seed, k]), int(share), centre, float(concentration))
        for k, (share, centre) in enumerate(zip(shares, centres, strict=True))
    ]
    return Points(jnp.concatenate(parts))


def caps(tokens_per_cap: int, centres: Any, radius: float, seed: int = 0) -> Points:
    """Uniform tokens in spherical caps of angular `radius` around each centre (a row each)."""
    checks.integer("tokens_per_cap", tokens_per_cap, 1)
    checks.finite_array("centres", centres, 2)
    checks.positive("radius", radius)
    centres = np.asarray(from_array(centres).points)
    count, dim = centres.shape
    if radius > np.pi:
        raise ValueError(f"radius is an angle and must be <= pi; got {radius}.")
    random = np.random.default_rng(checks.seed(seed))
    # The angle from the centre has density sin^{d-2}; invert its distribution on a fine table.
    grid = np.linspace(0, radius, 4097)
    density = np.sin(grid) ** (dim - 2)
    mass = np.concatenate([[0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    angles = np.interp(random.uniform(size=(count, tokens_per_cap)), mass / mass[-1], grid)
    across = random.standard_normal((count, tokens_per_cap, dim))
    across -= np.einsum("ktd,kd->kt", across, centres)[..., None] * centres[:, None]
    across /= np.linalg.norm(across, axis=-1, keepdims=True)
    points = np.cos(angles)[..., None] * centres[:, None] + np.sin(angles)[..., None] * across
    return Points(retract(jnp.asarray(points.reshape(-1, dim))))


def polygon(tokens: int, dim: int = 2) -> Points:
    """The regular polygon on the circle (first two axes of R^dim)."""
    _check_size(tokens, dim)
    theta = 2 * jnp.pi * jnp.arange(tokens) / tokens
    flat = jnp.stack([jnp.cos(theta), jnp.sin(theta)], axis=1)
    return Points(retract(jnp.pad(flat, ((0, 0), (0, dim - 2)))))


def simplex(dim: int) -> Points:
    """The regular simplex: dim + 1 tokens on S^{dim−1} with all inner products −1/dim."""
    checks.integer("dim", dim, 2)
    corners = np.eye(dim + 1) - 1 / (dim + 1)
    basis = np.linalg.svd(corners)[2][:dim]
    return Points(retract(jnp.asarray(corners @ basis.T)))


def gaussian_points(tokens: int, dim: int, scale: float = 1.0, seed: int = 0) -> Points:
    """Independent N(0, scale² I) tokens in R^dim, for pure attention without normalisation."""
    checks.integer("tokens", tokens, 1)
    checks.integer("dim", dim, 1)
    checks.positive("scale", scale)
    draw = jax.random.normal(_key(seed), (tokens, dim), dtype=jnp.float64)
    return Points(scale * draw, on_sphere=False)


def from_array(array: Any, weights: Any = None, times: Any = None) -> Points:
    """Embeddings (n, d) pushed to the sphere by x ↦ x/‖x‖; zero rows are refused.

    >>> from_array([[-3.0, 0.0], [0.0, 2.0]]).points.tolist()
    [[-1.0, 0.0], [0.0, 1.0]]
    """
    checks.finite_array("array", array, 2)
    array = jnp.asarray(array, jnp.float64)
    norms = np.linalg.norm(np.asarray(array), axis=1)
    if np.min(norms) == 0:
        raise ValueError(
            f"array must have no zero row (a zero vector has no direction); row "
            f"{int(np.argmin(norms))} is zero: drop it."
        )
    return Points(retract(array), weights, times)


def positional(words: Any, base: float = 10000.0) -> Points:
    """Token embeddings with sinusoidal positions, x_i = p_i + w_i, normalised to the sphere.

    (p_i)_{2k} = sin(i/M^{2k/d}), (p_i)_{2k+1} = cos(i/M^{2k/d}), k = 0, …, d/2 − 1, M = `base`.
    Starting k at 1, as some texts print it, leaves the two fastest coordinates without a position.
    """
    checks.finite_array("words", words, 2)
    checks.positive("base", base)
    words = jnp.asarray(words, jnp.float64)
    count, dim = words.shape
    return from_array(words + encoding(count, dim, base), times=jnp.arange(count))


def encoding(tokens: int, dim: int, base: float = 10000.0) -> jax.Array:
    """The sinusoidal positions p_i alone, shape (tokens, dim)."""
    k = jnp.arange(dim) // 2
    phase = jnp.arange(tokens)[:, None] / base ** (2 * k / dim)
    return jnp.where(jnp.arange(dim) % 2 == 0, jnp.sin(phase), jnp.cos(phase))


def _key(seed: int) -> jax.Array:
    return jax.random.key(checks.seed(seed))


def _check_size(tokens: int, dim: int) -> None:
    checks.integer("tokens", tokens, 1)
    checks.integer("dim", dim, 2, "The sphere of R^1 is two points and nothing moves on it.")
    checks.fits_memory(
        f"a start with {tokens} tokens in dimension {dim}",
        3.0 * tokens * dim,
        "use fewer tokens or a smaller dim",
    )
