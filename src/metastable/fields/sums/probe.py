"""What a field asks of its sum: the kernels, found by calling it with a sum that only listens."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields.sums.kernel import Kernel, Sum
from metastable.measures import Points


def kernels_of(measure: Points, field: Any) -> tuple[list[Kernel], bool]:
    """The kernels a field asks for at its own tokens, and whether it depends on time.

    No kernels for a field that needs more of its sum than means of exponentials.
    """
    probe = _Probe([])
    try:
        traced = jax.make_jaxpr(lambda t: field.drift(measure, own_places(measure), t, probe))(0.0)
    except ValueError:
        return [], False
    (t,) = traced.jaxpr.invars
    return probe.kernels, any(t is used for step in traced.eqns for used in step.invars)


def kernels_of_basis(measure: Points, field: Any) -> list[Kernel]:
    """The kernels for tokens at the basis vectors: their rows are the matrices query and key.

    None for a field that exists at its own tokens only, or evaluates kernels inside a loop.
    """
    dim, dtype = measure.dim, measure.points.dtype
    basis = eqx.tree_at(
        lambda m: (m.points, m.weights, m.times),
        measure,
        (jnp.eye(dim, dtype=dtype), jnp.ones(dim, dtype), None),
        is_leaf=lambda leaf: leaf is None,
    )
    probe = _Probe([])
    try:
        field.drift(basis, own_places(basis), 0.0, probe)
    except ValueError:
        return []
    return [] if is_traced(probe.kernels) else probe.kernels


def own_places(measure: Points) -> Any:
    """The measure's own tokens, as places where a field is wanted."""
    from metastable.fields.field import Places  # fields are built from sums, not the reverse

    return Places(measure.points, measure.positions, own=True)


class _Probe(Sum):
    """Records the kernels a field asks for, and answers with zeros."""

    kernels: list[Kernel] = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "probe"

    def attend(
        self, kernel: Kernel, values: Float[Array, "n v"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m v"]]:
        self.kernels.append(kernel)
        zeros = jnp.zeros((kernel.left.shape[0], values.shape[1]), values.dtype)
        return zeros[:, 0], zeros
