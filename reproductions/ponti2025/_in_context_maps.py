"""In-context maps: where a token goes when its context is a measure.

A transformer layer is a map Γ(μ, x). Applied to all tokens it pushes the measure forward, and
layers compose by ⋄, the next one seeing the measure that the last one left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields import Field, MultiHead, SelfAttention
from metastable.fields.attention import act
from metastable.fields.field import Places
from metastable.fields.sums import Dense, Sum
from metastable.flows.solvers.affine import Affine, affine_velocity
from metastable.measures import Points
from metastable.measures.density import Density
from metastable.measures.gaussian import Gaussian

__all__ = [
    "Attention",
    "Composition",
    "InContextMap",
    "MultiHeadAttention",
    "Perceptron",
    "continuity_bound",
]


class InContextMap(eqx.Module):
    """A map Γ(μ, x) from R^d to R^{d'} that depends on a measure μ.

    `gamma(measure, at)` is Γ(μ, x) at points x (m, d), and at the measure's own tokens without
    `at`. `gamma.push(measure)` is Γ(μ)_#μ. `second @ first` is the composition
    (Γ_2 ⋄ Γ_1)(μ, x) = Γ_2(Γ_1(μ)_#μ, Γ_1(μ, x)).

    Masked maps Γ(μ, x, t) see a measure on space-time (`Points` with `times`) up to time t: pass
    the `times` of the places. The push-forward moves space and leaves time as it is. A place that
    sees no mass keeps its residual part only.

    A measure is one of three. `Points` in R^d; on the sphere they count as points of the space
    around it. A `Gaussian`, under maps affine in x: it stays Gaussian. A `Density` on the circle
    or S², through the nodes of its quadrature: integrals are exact to rounding while the logits are
    smooth on the grid (|βKᵀQx| below about 30), and the push-forward is those nodes moved.

    Source: Furuya, de Hoop, Peyré, arXiv:2408.01367, §2.

    A new map defines `image`, and `affine` if it is affine under a Gaussian.
    """

    @abstractmethod
    def image(self, measure: Points, at: Places, sum: Sum) -> Float[Array, "m e"]:
        """Γ(μ, x) at places of a measure of tokens."""

    def affine(self, measure: Gaussian) -> Affine:
        """Γ(N(m, Σ), x) = c + Bx."""
        raise ValueError(
            f"a Gaussian stays Gaussian under affine maps only; got {type(self).__name__}, which "
            "is not affine in x: sample the Gaussian into Points."
        )

    def carry(self, measure: Points, at: Places, sum: Sum) -> tuple[Points, Places]:
        """The measure pushed forward, and the places moved along: both sides of ⋄ in one pass."""
        moved = self.image(measure, at, sum)
        tokens = moved if at.own else self.image(measure, _own(measure), sum)
        return measure.at(tokens), at.at(moved)

    def __call__(
        self, measure: Any, at: Any = None, times: Any = None, sum: Sum | None = None
    ) -> Float[Array, "m e"]:
        """Γ(μ, x), or Γ(μ, x, t) with `times`; shape (m, d')."""
        if isinstance(measure, Gaussian):
            if at is None:
                raise ValueError("at must be given for a Gaussian, which has no tokens; got None.")
            checks.finite_array("at", at, 2)
            offset, linear = self.affine(measure)
            return offset + jnp.asarray(at) @ linear.T
        return _image(self, *_prepared(measure, at, times), Dense() if sum is None else sum)

    def push(self, measure: Any, sum: Sum | None = None) -> Any:
        """The push-forward Γ(μ)_#μ; masses and times stay with their tokens."""
        if isinstance(measure, Gaussian):
            offset, linear = self.affine(measure)
            return Gaussian.from_factor(offset + linear @ measure.mean, linear @ measure.factor)
        tokens, own = _prepared(measure, None, None)
        return tokens.at(_image(self, tokens, own, Dense() if sum is None else sum))

    def __matmul__(self, first: InContextMap) -> Composition:
        return Composition(self, first)


class Composition(InContextMap):
    """Γ_2 ⋄ Γ_1; write `second @ first`. Associative."""

    second: InContextMap
    first: InContextMap

    def image(self, measure: Points, at: Places, sum: Sum) -> Float[Array, "m e"]:
        return self.second.image(*self.first.carry(measure, at, sum), sum)

    def carry(self, measure: Points, at: Places, sum: Sum) -> tuple[Points, Places]:
        return self.second.carry(*self.first.carry(measure, at, sum), sum)

    def affine(self, measure: Gaussian) -> Affine:
        (c, b), (offset, linear) = (
            self.first.affine(measure),
            self.second.affine(self.first.push(measure)),
        )
        return Affine(offset + linear @ c, linear @ b)


class Attention(InContextMap):
    """A layer of attention: Γ(μ, x) = x + v[μ](x), v the (unprojected) field.

    A causal field gives the masked map Γ(μ, x, t). `residual=False` leaves out the x.

    >>> import metastable as ms
    >>> pair = ms.Points([[0.0], [2.0]], on_sphere=False)
    >>> Attention(ms.SelfAttention(beta=0.0))(pair, [[5.0]]).tolist()  # the mean, added
    [[6.0]]
    """

    field: Field
    residual: bool = eqx.field(static=True, default=True)

    def image(self, measure: Points, at: Places, sum: Sum) -> Float[Array, "m e"]:
        move = self.field.drift(measure, at, 0.0, sum)
        return at.points + move if self.residual else move

    def affine(self, measure: Gaussian) -> Affine:
        velocity = affine_velocity(self.field, measure.mean, measure.factor, 0.0)
        if not self.residual:
            return velocity
        return Affine(velocity.offset, jnp.eye(measure.dim) + velocity.linear)


class MultiHeadAttention(InContextMap):
    """A residual layer of several heads, given by arrays stacked along the first axis.

    Γ(μ, x) = x + Σ_h W_h ∫ e^{⟨Q_h x, K_h y⟩/√d_k} V_h y dμ(y) / ∫ e^{⟨Q_h x, K_h z⟩/√d_k} dμ(z);
    with `causal` the masked Γ(μ, x, t), the indicator of [0, t] under both integrals.

    - `query`, `key`: (H, d_k, d); `value`: (H, d_v, d); `output`: (H, d, d_v).
    """

    query: Float[Array, "heads k d"]
    key: Float[Array, "heads k d"]
    value: Float[Array, "heads v d"]
    output: Float[Array, "heads d v"]
    causal: bool = eqx.field(static=True)

    def __init__(self, query: Any, key: Any, value: Any, output: Any, causal: bool = False):
        arrays = dict(query=query, key=key, value=value, output=output)
        for name, array in arrays.items():
            checks.finite_array(name, array, 3)
            setattr(self, name, jnp.asarray(array, jnp.float64))
        if len({len(array) for array in arrays.values()}) > 1:
            shapes = [np.shape(array) for array in arrays.values()]
            raise ValueError(f"all arrays must have one entry per head; got shapes {shapes}.")
        self.causal = bool(causal)

    def head(self, query: Array, key: Array, value: Array) -> SelfAttention:
        beta = 1 / np.sqrt(self.query.shape[1])
        return SelfAttention(beta, query, key, value, causal=self.causal)

    def image(self, measure: Points, at: Places, sum: Sum) -> Float[Array, "m e"]:
        # One head is traced for all: three layers of three heads compile in a third of the time.
        def move(query: Array, key: Array, value: Array, output: Array) -> Array:
            return act(output, self.head(query, key, value).drift(measure, at, 0.0, sum))

        moves = jax.vmap(move)(self.query, self.key, self.value, self.output)
        return at.points + jnp.sum(moves, axis=0)

    def affine(self, measure: Gaussian) -> Affine:
        heads = map(self.head, self.query, self.key, self.value)
        return Attention(MultiHead(list(heads), list(self.output))).affine(measure)


class Perceptron(InContextMap):
    """A feed-forward network, token by token: Γ(μ, x) = W_L σ(… σ(W_1 x + b_1) …) + b_L (+ x).

    - `weights`, `biases`: one matrix (out, in) and one vector per layer; the last layer is linear.
    - `residual=True` adds x.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)
    residual: bool = eqx.field(static=True)

    def __init__(
        self,
        weights: Sequence[Any],
        biases: Sequence[Any],
        activation: Callable[[Array], Array] = jax.nn.relu,
        residual: bool = False,
    ):
        if not weights or len(weights) != len(biases):
            raise ValueError(
                f"weights and biases must hold one entry per layer; got {len(weights)} and "
                f"{len(biases)}."
            )
        self.weights = tuple(jnp.asarray(w, jnp.float64) for w in weights)
        self.biases = tuple(jnp.asarray(b, jnp.float64) for b in biases)
        self.activation, self.residual = activation, residual

    def image(self, measure: Points, at: Places, sum: Sum) -> Float[Array, "m e"]:
        x = at.points
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.activation(act(weight, x) + bias)
        x = act(self.weights[-1], x) + self.biases[-1]
        return at.points + x if self.residual else x

    def affine(self, measure: Gaussian) -> Affine:
        weight, *more = self.weights
        if more:
            return super().affine(measure)
        bias = self.biases[-1]
        return Affine(bias, weight + jnp.eye(measure.dim) if self.residual else weight)


def continuity_bound(beta: float, query: Any, key: Any, value: Any, radius: float) -> float:
    """How much one head can change with its context: |Γ(μ,x) − Γ(ν,x)| ≤ C·W_1(μ, ν).

    C = ‖V‖(1 + 2s)e^{2s}, s = β‖KᵀQ‖R², for measures and places in the ball of radius R.

    Derived here: the difference is ∫ e^{⟨a,y⟩}(Vy − Γ(ν,x)) d(μ − ν)(y) / ∫ e^{⟨a,z⟩} dμ(z) with
    a = βKᵀQx; the integrand is Lipschitz with constant e^{s}‖V‖(1 + 2s), the mass at least e^{−s}.
    Masked maps have no such bound: a token that crosses the time t is seen or not, however little
    it moved.

    >>> import numpy as np
    >>> continuity_bound(0.0, np.eye(2), np.eye(2), 3 * np.eye(2), 1.0)
    3.0
    """
    s = beta * np.linalg.norm(np.asarray(key).T @ np.asarray(query), 2) * radius**2
    return float(np.linalg.norm(value, 2) * (1 + 2 * s) * np.exp(2 * s))


def _own(measure: Points) -> Places:
    return Places(measure.points, measure.positions, own=True)


def _prepared(measure: Any, at: Any, times: Any) -> tuple[Points, Places]:
    need = "Points(...), Gaussian(...) or Density(...)"
    checks.instance("measure", measure, (Points, Density), need)
    measure = _nodes(measure) if isinstance(measure, Density) else measure.euclidean()
    if at is None:
        return measure, _own(measure)
    checks.finite_array("at", at, 2)
    points = jnp.asarray(at, measure.points.dtype)
    if points.shape[1] != measure.dim:
        raise ValueError(
            f"at must hold points of dimension {measure.dim}, like the tokens; got shape "
            f"{points.shape}."
        )
    if times is not None:
        checks.finite_array("times", times, 1)
        times = jnp.broadcast_to(jnp.asarray(times, points.dtype), points.shape[:1])
    return measure, Places(points, times)


def _nodes(density: Density) -> Points:
    """The quadrature of a density as weighted tokens."""
    if density.zonal:
        raise ValueError(
            "a Density around an axis is known on one meridian only; got one: use "
            "density.to_points(n)."
        )
    fine = density.resized(max(2 * density.degree, 48))
    basis = fine.basis
    values = basis.values(fine.coefficients)
    # The mean over the sphere is linear in the values: its gradient holds the quadrature weights.
    weights = jax.grad(basis.mean)(jnp.ones_like(values))
    return Points(basis.nodes(None), jnp.ravel(jnp.maximum(weights * values, 0.0)), on_sphere=False)


@eqx.filter_jit
def _image(gamma: InContextMap, measure: Points, at: Places, sum: Sum) -> Array:
    return gamma.image(measure, at, sum)
