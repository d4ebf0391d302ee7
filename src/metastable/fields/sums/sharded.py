"""Tokens spread over several devices: each keeps its rows, and the columns go round in a ring."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.kernel import Attended, Kernel, Sum


class ShardedSum(Sum):
    """A sum over tokens that are spread over a ring of p devices.

    Each device holds n/p rows and n/p columns. In p steps the columns pass by every device, which
    adds their part to its rows by `inner` (masses add in log domain, means by mass). No device ever
    holds more than 2n/p tokens, and columns travel while the part before is computed.

    On several hosts call `jax.distributed.initialize()` first: `jax.devices()` then lists the
    devices of all hosts, and the same sum runs over them.

    >>> import metastable as ms
    >>> tokens, field = ms.uniform(tokens=7, dim=3), ms.SelfAttention(beta=2.0)
    >>> difference = field.velocity(tokens, sum=ShardedSum()) - field.velocity(tokens)
    >>> bool(abs(difference).max() < 1e-15)
    True
    """

    inner: Sum
    devices: tuple[Any, ...] = eqx.field(static=True)

    def __init__(self, inner: Sum | None = None, devices: Any = None):
        self.inner = Dense() if inner is None else inner
        self.devices = tuple(jax.devices() if devices is None else devices)
        if not self.devices:
            raise ValueError("devices must hold at least one device; got none: leave it unset.")

    @property
    def name(self) -> str:
        return f"{self.inner.name} on {len(self.devices)} devices"

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        count, size = kernel.left.shape[0], len(self.devices)
        mesh = jax.sharding.Mesh(np.array(self.devices), ("ring",))
        onward = [(i, (i + 1) % size) for i in range(size)]

        def ring(shared: tuple, rows: tuple, columns: tuple) -> tuple[Array, Array]:
            (beta, biases, inner), (left, row, row_times) = shared, rows

            def step(carry, _):
                (right, column, values, times), known = carry
                travelling = jax.tree.map(
                    lambda a: jax.lax.ppermute(a, "ring", onward), (right, column, values, times)
                )
                part = Kernel(
                    beta, left, right, column, row, biases, row_times, times, zonal=kernel.zonal
                )
                return (travelling, _merge(known, inner.attend(part, values))), None

            m, dtype = left.shape[0], columns[2].dtype
            nothing = jnp.full(m, -jnp.inf, dtype), jnp.zeros((m, columns[2].shape[1]), dtype)
            (_, known), _ = jax.lax.scan(step, (columns, nothing), length=size)
            return known

        pad = lambda array, fill=0.0: None if array is None else _pad(array, size, fill)
        rows = pad(kernel.left), pad(kernel.row), pad(kernel.row_times)
        columns = (
            pad(kernel.right),
            pad(kernel.column, -jnp.inf),
            pad(values),
            pad(kernel.column_times),
        )
        whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("ring")
        # The loops of an inner sum start from constants, which the check takes for an error.
        spread = jax.shard_map(
            ring, mesh=mesh, in_specs=(whole, split, split), out_specs=split, check_vma=False
        )
        log_mass, mean = spread((kernel.beta, kernel.biases, self.inner), rows, columns)
        return log_mass[:count], mean[:count]


def _merge(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Two partial sums as one: (log mass, mean) of the union."""
    log_mass = jnp.logaddexp(a[0], b[0])
    # Two empty parts stay empty: −∞ − (−∞) must not appear.
    safe = jnp.where(jnp.isfinite(log_mass), log_mass, 0.0)
    share = lambda part: jnp.exp(part[0] - safe)[:, None] * part[1]
    return log_mass, share(a) + share(b)


def _pad(array: Array, size: int, fill: float) -> Array:
    extra = [(0, -array.shape[0] % size)] + [(0, 0)] * (array.ndim - 1)
    return jnp.pad(array, extra, constant_values=fill)
