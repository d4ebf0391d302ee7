"""What a field does to a Gaussian: an affine velocity, so that the image stays Gaussian."""

from __future__ import annotations

from functools import reduce, singledispatch
from typing import Any, NamedTuple

from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields import L2Attention, MultiHead, Schedule, SelfAttention, SinkhornAttention
from metastable.fields.attention import act
from metastable.fields.field import Field, Superposition


class Affine(NamedTuple):
    """The map x ↦ c + Bx: `offset` c (d,) and `linear` B (d, d)."""

    offset: Float[Array, " d"]
    linear: Float[Array, "d d"]

    def through(self, output: Array | None) -> Affine:
        """W(c + Bx) for an operator W."""
        return Affine(_apply(output, self.offset[:, None])[:, 0], _apply(output, self.linear))

    def plus(self, other: Affine) -> Affine:
        return Affine(self.offset + other.offset, self.linear + other.linear)


@singledispatch
def affine_velocity(field: Field, mean: Array, factor: Array, t: Any) -> Affine:
    """The velocity v[N(m,Σ)](x) = c + Bx of a field under a Gaussian, Σ = LLᵀ with L = `factor`.

    A = βKᵀQ throughout. Each head tilts the Gaussian into another one, whose mean is affine in x:
    - `SelfAttention` (softmax): v = V(m + ΣAx).
    - `L2Attention`: v = V(m + GA x − βGKᵀK m), G = (Σ⁻¹ + βKᵀK)⁻¹ = Σ − βΣKᵀ(I + βKΣKᵀ)⁻¹KΣ.
    - `SinkhornAttention`: v = V(m + GA(x − m)), G = L h(PPᵀ) Lᵀ with P = LᵀAL and
      h(s) = 2/(1 + √(1+4s)).
    - `MultiHead`, sums of fields and `Schedule`: sums of affine maps are affine, so the image of
      the Gaussian is exactly Gaussian whatever the number of heads. (The outputs of the heads are
      functions of one x and so dependent: a sum of *independent* Gaussians is not the reason.)

    Source: Castin, Ablin, Carrillo, Peyré, arXiv:2501.18322, for the equations; the forms without
    inverses are derived here (for Sinkhorn: the Gaussian coupling whose precision has the
    off-diagonal block −Aᵀ) and checked against sampled tokens.

    Refused, with the reason: unnormalised attention (its mass e^{quadratic in x} is not affine),
    causal attention, positions, noise and everything else that is not affine in x.
    """
    raise ValueError(
        "a Gaussian stays Gaussian only under SelfAttention, L2Attention, SinkhornAttention, their "
        f"MultiHead, sums and Schedule; got {type(field).__name__}: sample it into Points."
    )


@affine_velocity.register
def _(field: SelfAttention, mean: Array, factor: Array, t: Any) -> Affine:
    if field.causal:
        raise _causal()
    if field.position or not field.normalized:
        what = "positions" if field.position else "normalized=False"
        raise ValueError(
            f"attention with {what} is not affine in x, so a Gaussian does not stay Gaussian; "
            "leave it out, or sample the Gaussian into Points."
        )
    keyed = factor @ act(field.key, factor.T)  # ΣKᵀ (d, p): A is never formed, p may be small
    return _head(field, mean, keyed, mean)


@affine_velocity.register
def _(field: L2Attention, mean: Array, factor: Array, t: Any) -> Affine:
    if field.causal:
        raise _causal()
    seen = act(field.key, factor.T)  # LᵀKᵀ (r, p)
    # GKᵀ = ΣKᵀ(I + βKΣKᵀ)⁻¹: a solve with a matrix that is never worse than the identity.
    gram = jnp.eye(seen.shape[1]) + field.beta * seen.T @ seen
    keyed = jax.scipy.linalg.solve(gram, (factor @ seen).T, assume_a="pos").T
    pull = field.beta * keyed @ act(field.key, mean[None])[0]
    return _head(field, mean, keyed, mean - pull)


@affine_velocity.register
def _(field: SinkhornAttention, mean: Array, factor: Array, t: Any) -> Affine:
    seen = act(field.key, factor.T)  # LᵀKᵀ (r, p)
    tilt = field.beta * seen @ act(field.query, factor.T).T  # P = LᵀAL (r, r)
    squares, basis = jnp.linalg.eigh(tilt @ tilt.T)
    share = 2.0 / (1.0 + jnp.sqrt(1.0 + 4.0 * jnp.maximum(squares, 0.0)))
    keyed = factor @ (basis * share) @ (basis.T @ seen)
    pull = field.beta * keyed @ act(field.query, mean[None])[0]
    return _head(field, mean, keyed, mean - pull)


@affine_velocity.register
def _(field: MultiHead, mean: Array, factor: Array, t: Any) -> Affine:
    heads = zip(field.heads, field.outputs, strict=True)
    return reduce(Affine.plus, [affine_velocity(h, mean, factor, t).through(w) for h, w in heads])


@affine_velocity.register
def _(field: Superposition, mean: Array, factor: Array, t: Any) -> Affine:
    return reduce(Affine.plus, [affine_velocity(part, mean, factor, t) for part in field.parts])


@affine_velocity.register
def _(field: Schedule, mean: Array, factor: Array, t: Any) -> Affine:
    return affine_velocity(field.at_time(t), mean, factor, t)


def _head(field: Any, mean: Array, keyed: Array, offset: Array) -> Affine:
    """V(offset + β·keyed·Qx)."""
    valued = _apply(field.value, keyed)
    query = field.query
    if query is not None and query.ndim == 2:
        if query.shape[1] != mean.size or query.shape[0] != valued.shape[1]:
            raise ValueError(
                f"query must map dimension {mean.size} to the {valued.shape[1]} axes of the keys; "
                f"got a matrix of shape {query.shape}."
            )
        valued = valued @ query
    elif query is not None:
        valued = query * valued
    return Affine(_apply(field.value, offset[:, None])[:, 0], field.beta * valued)


def _apply(operator: Array | None, columns: Array) -> Array:
    """M @ columns for an operator that is None, a number or a matrix."""
    return act(operator, columns.T).T


def _causal() -> ValueError:
    return ValueError(
        "causal attention must be left out for a Gaussian: a token would see the mixture of the "
        "laws of the earlier ones, which is Gaussian only when all are equal, and then the mask "
        "changes nothing. Sample the Gaussian into Points."
    )
