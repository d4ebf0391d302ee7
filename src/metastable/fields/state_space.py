"""A selective state-space layer, as Mamba has: tokens read what a memory kept of earlier ones."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.attention import act, matrix
from metastable.fields.field import Field, Places, show_value
from metastable.fields.pairwise import dense
from metastable.fields.sums import Sum
from metastable.measures import Points


class StateSpace(Field):
    """The selective state-space layer S6 as a causal flow on the sphere.

    ẋ_i = P_{x_i} Σ_{j≤i} e^{−a(S_i − S_j)} w_jΔ_j ⟨Cx_i, Bx_j⟩ V x_j,
    S_i = Σ_{k≤i} w_kΔ_k,  Δ_k = softplus(⟨g,x_k⟩ + b), or 1 without `gate`

    Source: Vo, Pham, Tong, Nguyen, arXiv:2410.03292, the limit of many layers, there in R^d and for
    V = I, with the same decay for all states; on the sphere as in "Token Dynamics on Spheres in
    Mamba Models" (OpenReview 466gVY2sBQ), of which the abstract was read. There a token counts 1,
    here its mass w: n tokens have a = n times the paper's, and time runs 1/n as fast.

    - `decay`: a ≥ 0 along a memory of unit mass. a = 0 is causal linear attention.
    - `query`, `key`: C and B, with which the memory is read and written; `value`: V.
    - `gate`, `bias`: g and b; how long a step of the memory a token makes.

    Weights may be negative: x and −x act alike when Q = K. With C = B, V = I and a generic start
    every token ends at ±x_1, which never moves: `metastable.theory.moments.follower_angle`.
    All pairs, O(n²). Good values: decay = 2, a few tokens, t ≈ 20n.

    >>> import metastable as ms
    >>> pair = ms.Points([[1.0, 0.0], [0.6, 0.8]])
    >>> StateSpace(decay=0.0).velocity(pair)[1].round(1).tolist()
    [0.2, -0.1]
    """

    decay: Float[Array, ""]
    query: Array | None
    key: Array | None
    value: Array | None
    gate: Float[Array, " d"] | None
    bias: Float[Array, ""]

    def __init__(
        self,
        decay: Any = 1.0,
        query: Any = None,
        key: Any = None,
        value: Any = None,
        gate: Any = None,
        bias: Any = 0.0,
    ):
        self.decay = jnp.asarray(checks.nonnegative("decay", decay), jnp.float64)
        self.query = matrix("query", query)
        self.key = matrix("key", key)
        self.value = matrix("value", value)
        if gate is not None:
            checks.finite_array("gate", gate, 1)
        self.gate = None if gate is None else jnp.asarray(gate, jnp.float64)
        self.bias = jnp.asarray(checks.real("bias", bias), jnp.float64)

    clock: ClassVar[str] = "state space"

    def steps(self, points: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Δ of each token."""
        if self.gate is None:
            return jnp.ones_like(points[:, 0])
        if self.gate.shape != points.shape[1:]:
            raise ValueError(
                f"gate must have one entry per axis ({points.shape[1]}); got {len(self.gate)}."
            )
        return jax.nn.softplus(points @ self.gate + self.bias)

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        if at.times is None:
            raise ValueError(
                "a causal field evaluated away from its tokens needs their times: pass "
                "at=Points(points, times=...)."
            )
        y = measure.points
        left, right = act(self.query, at.points), act(self.key, y)
        if left.shape[1] != right.shape[1]:
            raise ValueError(
                "query and key must map to one space; got dimensions "
                f"{left.shape[1]} and {right.shape[1]}."
            )
        times, masses = measure.positions, measure.weights * self.steps(y)
        order = jnp.argsort(times)
        run = jnp.concatenate([jnp.zeros(1), jnp.cumsum(masses[order])])
        # Tokens of one time are kept alike: the memory has then taken in all of them.
        kept = lambda s: run[jnp.searchsorted(times[order], s, side="right")]
        extended = lambda a, s: jnp.concatenate([a, s[:, None], kept(s)[:, None]], axis=1)

        def weight(a: Array, b: Array) -> Array:
            # Differences are ≥ 0 among tokens that are seen; of the others the power may overflow.
            fading = jnp.exp(-self.decay * jnp.maximum(a[:, None, -1] - b[None, :, -1], 0.0))
            seen = b[None, :, -2] <= a[:, None, -2]
            return jnp.where(seen, fading * (a[:, :-2] @ b[:, :-2].T), 0.0)

        rows, columns = extended(left, at.times), extended(right, times)
        return act(self.value, dense(sum).pairwise(weight, rows, columns, masses, y)[1])

    def __repr__(self) -> str:
        given = [(name, getattr(self, name)) for name in ("query", "key", "value", "gate")]
        shown = [f"{name}={show_value(value)}" for name, value in given if value is not None]
        shown += [] if self.gate is None else [f"bias={show_value(self.bias)}"]
        return f"StateSpace({', '.join([f'decay={show_value(self.decay)}', *shown])})"
