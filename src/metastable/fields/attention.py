"""Self-attention: the mean of the tokens, weighted by the exponential of their inner products."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.fields.field import Field, Places, show_value
from metastable.fields.position import Causal, Rope
from metastable.fields.sums import Bias, Kernel, Sum
from metastable.measures import Points


class AttentionHead(Field):
    """What all attention heads hold: β, and the operators on queries, keys and values."""

    beta: Float[Array, ""]
    query: Array | None
    key: Array | None
    value: Array | None

    def __init__(self, beta: Any, query: Any = None, key: Any = None, value: Any = None):
        remedy = "For a negative temperature write query=-1."
        self.beta = jnp.asarray(checks.nonnegative("beta", beta, remedy), jnp.float64)
        self.query = matrix("query", query)
        self.key = matrix("key", key)
        self.value = matrix("value", value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.shown())})"

    def shown(self) -> list[str]:
        """The arguments that are not at their default."""
        operators = ((name, getattr(self, name)) for name in ("query", "key", "value"))
        given = [f"{name}={show_value(value)}" for name, value in operators if value is not None]
        return [f"beta={show_value(self.beta)}", *given]


class SelfAttention(AttentionHead):
    """Softmax self-attention (SA), or its unnormalised form (USA).

    SA:  ẋ_i = P_{x_i} Σ_j w_j e^{β⟨Qx_i,Kx_j⟩} V x_j / Σ_k w_k e^{β⟨Qx_i,Kx_k⟩}
    USA: the same with the denominator Σ_k w_k = 1 (`normalized=False`).

    Source: Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2312.10794, eqs. (SA) and (USA).

    - `beta`: inverse temperature ≥ 0.
    - `query`, `key`, `value`: None (identity), a number (a multiple of the identity; `value=-1`
      is repulsion) or a matrix. A matrix that is exactly a multiple of the identity is recognised
      as such. Query and key may be (p, d); value must be (d, d) unless an output matrix follows.
    - `causal`: token i sees the tokens of time ≤ its own; USA then sums over those only.
    - `position`: `Rope`, `Alibi`, `Window`, or several of them, acting on the logits.

    USA loses digits of the velocity between nearly opposite tokens; `velocity` says how many.

    Good values: on the circle β = 5 gives about 3 first clusters, β = 9 gives 4.

    >>> SelfAttention(beta=9.0, value=-np.eye(3))
    SelfAttention(beta=9, value=-1)
    """

    position: tuple[Rope | Bias, ...]
    normalized: bool = eqx.field(static=True)
    dim: int | None = eqx.field(static=True)  # of the tokens, where a matrix told it

    def __init__(
        self,
        beta: Any,
        query: Any = None,
        key: Any = None,
        value: Any = None,
        normalized: bool = True,
        causal: bool = False,
        position: Any = (),
    ):
        super().__init__(beta, query, key, value)
        shapes = [np.shape(m) for m in (query, key, value) if np.ndim(m) == 2]
        self.dim = shapes[0][1] if shapes else None
        schemes = tuple(position) if isinstance(position, tuple | list) else (position,)
        for scheme in schemes:
            checks.instance("position", scheme, (Rope, Bias), "Rope(), Alibi(...) or Window(...)")
        self.position = ((Causal(),) if causal else ()) + schemes
        self.normalized = bool(normalized)

    @property
    def clock(self) -> str:
        return "SA" if self.normalized else "USA"

    @property
    def causal(self) -> bool:
        return any(isinstance(scheme, Causal) for scheme in self.position)

    @property
    def isotropic(self) -> bool:
        """Whether query, key and value are multiples of the identity and position plays no role."""
        operators = (self.query, self.key, self.value)
        return all(o is None or o.ndim == 0 for o in operators) and not self.position

    def kernel(self, measure: Points, at: Places) -> Kernel:
        # A multiple of the identity is kept as a number, which would fit any dimension.
        if self.dim is not None and self.dim != measure.dim:
            raise ValueError(
                f"the matrices of this field act on dimension {self.dim}; the tokens have "
                f"dimension {measure.dim}."
            )
        return logits(self.beta, self.query, self.key, self.position, measure, at)

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        log_mass, mean = sum.attend(self.kernel(measure, at), measure.points)
        if not self.normalized:
            mean = jnp.exp(log_mass)[:, None] * mean
        return act(self.value, mean)

    def shown(self) -> list[str]:
        others = tuple(scheme for scheme in self.position if not isinstance(scheme, Causal))
        return [
            *super().shown(),
            *([] if self.normalized else ["normalized=False"]),
            *(["causal=True"] if self.causal else []),
            *([f"position={show_value(others)}"] if others else []),
        ]


def matrix(name: str, value: Any) -> Array | None:
    """An operator in its simplest form: None (identity), a scalar array, or a matrix.

    None survives `jit` as structure, so the fast paths for the identity are chosen when compiling.
    """
    if value is None:
        return None
    if np.ndim(value) == 0:
        array = jnp.asarray(checks.real(name, value), jnp.float64)
    else:
        checks.finite_array(name, value, 2)
        array = jnp.asarray(value, jnp.float64)
    if is_traced(array):
        return array
    if array.ndim and array.shape[0] == array.shape[1]:
        corner = array[0, 0]
        if np.array_equal(array, corner * np.eye(array.shape[0])):
            array = corner
    return None if array.ndim == 0 and array == 1.0 else array


def act(operator: Array | None, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
    """Apply an operator to each row."""
    if operator is None:
        return x
    if operator.ndim == 0:
        return operator * x
    if operator.shape[1] != x.shape[1]:
        raise ValueError(
            f"a matrix of shape {operator.shape} cannot act on tokens of dimension {x.shape[1]}: "
            "it needs as many columns as the tokens have axes."
        )
    return x @ operator.T


def logits(
    beta: Array,
    query: Array | None,
    key: Array | None,
    position: tuple,
    measure: Points,
    at: Places,
) -> Kernel:
    """The logits β⟨Qx,Ky⟩ of places x against tokens y, with masses and positional schemes."""
    left, right = act(query, at.points), act(key, measure.points)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"query and key must map to one space; got dimensions {left.shape[1]} and "
            f"{right.shape[1]}."
        )
    if position and at.times is None:
        raise ValueError(
            "a causal or positional field evaluated away from its tokens needs their times: pass "
            "at=Points(points, times=...)."
        )
    for scheme in position:
        if isinstance(scheme, Rope):
            left = scheme.rotate(left, at.times)  # pyright: ignore[reportArgumentType]
            right = scheme.rotate(right, measure.positions)
    return Kernel(
        beta=beta,
        left=left,
        right=right,
        column=jnp.log(measure.weights),
        biases=tuple(scheme for scheme in position if isinstance(scheme, Bias)),
        row_times=at.times,
        column_times=measure.positions,
        zonal=query is None and key is None and measure.on_sphere and not position,
        # A token of no mass may see nothing but far tokens: it needs the logarithms.
        own=at.own and not measure.massless,
    )
