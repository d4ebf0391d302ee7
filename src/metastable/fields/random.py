"""Weights drawn anew at every moment of depth and shared by all tokens: common noise."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.core.spec import NonNegative, Positive
from metastable.fields.attention import SelfAttention
from metastable.fields.field import Field, Places, Superposition
from metastable.fields.noise import diffusion
from metastable.fields.sums import Dense, Sum
from metastable.measures import Points

CLOCK = "random depth"
FEW = 8  # tokens for which a triangle is cheaper than a matrix


class CommonNoise(Field):
    """A random force that all tokens feel together: dx_i = P_{x_i} dW m_i, in the sense of Itô.

    A new one defines `kick`. Its time is that of layers x ← N(x + √h W m): h each.
    """

    clock: ClassVar[str] = CLOCK

    @abstractmethod
    def kick(self, measure: Points, key: Array, t: Any, sum: Sum) -> Float[Array, "n d"]:
        """One draw of W m_i for every token, W common to them."""

    @property
    @abstractmethod
    def strength(self) -> Array:
        """σ²: the variance of an entry of W."""

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        return jnp.zeros_like(at.points)


class RandomValue(CommonNoise):
    """One attention head whose value matrix is drawn anew at every moment, for all tokens at once.

    dx_i = σ P_{x_i} dW m_i − ½σ²(d−1)‖m_i‖²x_i dt,  m_i = Σ_j A_ij x_j

    with A the softmax weights of inverse temperature `beta` and W a d × d matrix of independent
    Brownian motions (Itô). It is the limit ε → 0 of layers x ← N(x + εW m), W drawn in every
    layer with entries of variance σ², in the time ε² a layer; `Layers(step=ε²)` are those layers.

    - `beta`: of the head; None for no attention, m_i = x_i (each token sees itself alone).
    - `scale`: σ.
    - `orthogonal`: in layers, W = σ√d O with O uniform among orthogonal matrices; the limit of
      thin layers is the same.
    - `causal`: token i sees the tokens of time ≤ its own.

    Common noise pulls tokens together: two of them come closer like e^{−(d−1)σ²t/2}. Sources:
    [fedorov2026clustering], [koubbi2026homogenized]; [shalova2026random] without attention.

    >>> import metastable as ms
    >>> run = ms.flow(ms.uniform(8, 4, seed=1), ms.RandomValue(beta=1.0), 8.0, seed=3)
    >>> bool(ms.similarity(run.frames[-1]).mean > 0.99)
    True
    """

    head: SelfAttention | None
    scale: Float[Array, ""]
    orthogonal: bool = eqx.field(static=True)

    def __init__(
        self,
        beta: NonNegative | None = None,
        scale: Positive = 1.0,
        orthogonal: bool = False,
        causal: bool = False,
    ):
        self.head = None if beta is None else SelfAttention(beta, causal=causal)
        self.scale = jnp.asarray(checks.positive("scale", scale), jnp.float64)
        self.orthogonal = bool(orthogonal)

    @property
    def strength(self) -> Array:
        return self.scale**2

    def means(self, measure: Points, t: Any, sum: Sum) -> Float[Array, "n d"]:
        """m_i: what each token sees."""
        if self.head is None:
            return measure.points
        here = Places(measure.points, measure.positions, own=True)
        return self.head.drift(measure, here, t, sum)

    def kick(self, measure: Points, key: Array, t: Any, sum: Sum) -> Float[Array, "n d"]:
        means = self.means(measure, t, sum)
        if not self.orthogonal and measure.count <= min(FEW, measure.dim - 1):
            # W on the span of the means is as random as W: n normal vectors in place of d.
            normal = jax.random.normal(key, means.shape)
            return self.scale * triangle(means) @ normal
        return self.scale * means @ draw_matrix(key, measure.dim, self.orthogonal).T

    def __repr__(self) -> str:
        beta = "None" if self.head is None else f"{float(self.head.beta):g}"
        more = ", orthogonal=True" if self.orthogonal else ""
        more += ", causal=True" if self.head is not None and self.head.causal else ""
        return f"RandomValue(beta={beta}, scale={float(self.scale):g}{more})"


class RandomHeads(CommonNoise):
    """Several heads with query, key and value drawn anew at every moment, for all tokens at once.

    W m_i becomes H^{−1/2} Σ_h W_h m_i^h, m_i^h with the logits β⟨Q_hx_i,K_hx_j⟩/√p, entries of
    Q_h and K_h (p × d) standard normal, of W_h with variance σ²; p = `size`, d by default.

    Logits have variance β² then: β = 1 is a transformer as it is initialised. A network that
    averages its heads, x ← N(x + (η/H)Σ_h(V + W_h)m^h), is `SelfAttention(value=V)` plus these
    with σ² = η/H in the time η a layer: the flow of the average as H → ∞, at the rate H^{−1/2}.
    Source: [koubbi2026homogenized]; the form here is derived.
    """

    heads: int = eqx.field(static=True)
    beta: Float[Array, ""]
    scale: Float[Array, ""]
    size: int | None = eqx.field(static=True)
    orthogonal: bool = eqx.field(static=True)

    def __init__(
        self,
        heads: int,
        beta: NonNegative = 1.0,
        scale: Positive = 1.0,
        size: int | None = None,
        orthogonal: bool = False,
    ):
        self.heads = checks.integer("heads", heads, 1)
        self.beta = jnp.asarray(checks.nonnegative("beta", beta), jnp.float64)
        self.scale = jnp.asarray(checks.positive("scale", scale), jnp.float64)
        self.size = None if size is None else checks.integer("size", size, 1)
        self.orthogonal = bool(orthogonal)

    @property
    def strength(self) -> Array:
        return self.scale**2

    def kick(self, measure: Points, key: Array, t: Any, sum: Sum) -> Float[Array, "n d"]:
        size = self.size or measure.dim
        here = Places(measure.points, measure.positions, own=True)

        def one(total: Array, key: Array) -> tuple[Array, None]:
            first, second, third = jax.random.split(key, 3)
            query, place = (jax.random.normal(k, (size, measure.dim)) for k in (first, second))
            head = SelfAttention(self.beta / jnp.sqrt(size), query, place)
            weights = draw_matrix(third, measure.dim, self.orthogonal)
            return total + head.drift(measure, here, t, Dense()) @ weights.T, None

        keys = jax.random.split(key, self.heads)
        total, _ = jax.lax.scan(one, jnp.zeros_like(measure.points), keys)
        return self.scale / jnp.sqrt(self.heads) * total


def triangle(means: Float[Array, "n d"]) -> Float[Array, "n n"]:
    """L with LLᵀ = MMᵀ, by Gram and Schmidt on the rows of M, so that MWᵀ and LZ have one law."""
    rows, units = [], []
    for mean in means:
        row = []
        for unit in units:
            row.append(unit @ mean)
            mean = mean - row[-1] * unit
        length = jnp.linalg.norm(mean)
        units.append(mean / jnp.maximum(length, 1e-300))
        rows.append(jnp.stack([*row, length, *[jnp.zeros(())] * (len(means) - len(row) - 1)]))
    return jnp.stack(rows)


def draw_matrix(key: Array, dim: int, orthogonal: bool) -> Float[Array, "d d"]:
    """A d × d matrix of independent standard normals, or √d times a uniform orthogonal one."""
    normal = jax.random.normal(key, (dim, dim))
    if not orthogonal:
        return normal
    q, r = jnp.linalg.qr(normal)
    signs = jnp.where(jnp.diagonal(r) < 0, -1.0, 1.0)
    return jnp.sqrt(dim) * q * signs


def common_noise(field: Field) -> tuple[CommonNoise, ...]:
    """The terms of a field that kick all tokens together."""
    parts = field.parts if isinstance(field, Superposition) else (field,)
    found = tuple(part for part in parts if isinstance(part, CommonNoise))
    nodes = jax.tree.leaves(field, is_leaf=lambda node: isinstance(node, CommonNoise))
    if sum(isinstance(node, CommonNoise) for node in nodes) > len(found):
        raise ValueError(
            "random weights must be added to the outermost field, field + RandomValue(...); they "
            "are inside another."
        )
    return found


def is_noisy(field: Field) -> bool:
    """Whether chance moves the tokens, each by itself or all together."""
    rate = diffusion(field)
    return is_traced(rate) or float(rate) > 0 or bool(common_noise(field))
