"""Causal attention on spheres in O(n): moments of the past, kept while time goes on."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.sums.dense import blocks
from metastable.fields.sums.harmonic import features, no_moments
from metastable.fields.sums.kernel import Attended, Kernel
from metastable.fields.sums.zonal import ZonalSum, degree_for


class CausalSum(ZonalSum):
    """Σ_{j: s_j ≤ s_i} w_j e^{β⟨x_i,x_j⟩} v_j in d = 2, …, 8, in O(n (block + K^{d−1})).

    Tokens are taken in the order of their times, `block` at a time. The past enters a block through
    the harmonic moments of all tokens before it, as in `HarmonicSum`; pairs inside the block, and
    with the next one for tokens of equal time, are summed directly. At most `block` tokens may
    share one time, or the result is NaN.

    Serves masked attention of a measure on the sphere at its own tokens, without query, key or
    other positional schemes. `tolerance` is relative to the mass of the past.
    """

    kind: ClassVar[str] = "causal harmonic"
    dim: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, converter=float, default=1e-13)
    block: int = eqx.field(static=True, default=64)

    def __check_init__(self) -> None:
        checks.integer("block", self.block, 1)

    @classmethod
    def reaching(cls, beta: Any, dim: int, tolerance: float = 1e-13) -> CausalSum:
        """The smallest sum that serves all inverse temperatures up to `beta`."""
        # Beyond the circle a block pays for the passage from moments to series.
        block = {2: 64, 3: 128}.get(dim, 512)
        return cls(dim, degree_for(beta, dim, tolerance), tolerance, block)

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        from metastable.fields.position import Causal  # positions are built from sums

        masked = len(kernel.biases) == 1 and isinstance(kernel.biases[0], Causal)
        if not masked or not kernel.own or kernel.column_times is None:
            raise ValueError(
                "a causal sum serves the causal mask alone, at the measure's own tokens; got "
                f"{len(kernel.biases)} positional schemes: leave sum unset, or use Dense()."
            )
        times = kernel.column_times
        order = jnp.argsort(times)
        plain = Kernel(kernel.beta, kernel.left, kernel.right, kernel.column, zonal=True, own=True)
        convolve = lambda q, c: self._convolve(plain, q[order], c, times[order], order)
        log_mass, mean = self.attend_by(convolve, plain, values)
        # Rows of a query or key would pass for tokens; and a crowd of one time spans two blocks.
        unit = jnp.max(jnp.abs(jnp.sum(kernel.left * kernel.right, axis=1) - 1)) < 1e-6
        sorted_times = times[order]
        spread = jnp.all(sorted_times[self.block :] > sorted_times[: -self.block])
        good = jnp.where(unit & spread, 1.0, jnp.nan).astype(mean.dtype)
        return good * log_mass, good * mean

    def _convolve(self, kernel: Kernel, charges: Array, c: Array, times: Array, order: Array):
        gather, smooth, scatter = features(self.dim, self.degree)
        beta = kernel.beta.astype(charges.dtype)
        size = min(self.block, charges.shape[0])
        parts = (
            blocks(kernel.left[order], size, fill=None),
            blocks(charges, size),
            blocks(times, size, fill=jnp.inf),
        )
        # What follows the last block is a copy of the first, hidden by its time.
        after = tuple(jnp.roll(part, -1, axis=0) for part in parts)
        after = *after[:2], after[2].at[-1].set(jnp.inf)

        @jax.checkpoint
        def step(past, block):
            (x, q, s), (x_next, q_next, s_next) = block
            y, charge = jnp.concatenate([x, x_next]), jnp.concatenate([q, q_next])
            seen = jnp.concatenate([s, s_next]) <= s[:, None]
            k = jnp.where(seen, jnp.exp(beta * (x @ y.T) - beta), 0.0)
            total = k @ charge + scatter(x, smooth(past, c))
            return jax.tree.map(jnp.add, past, gather(x, q)), total

        _, total = jax.lax.scan(step, no_moments(gather, *parts[:2]), (parts, after))
        total = total.reshape(-1, total.shape[-1])[: charges.shape[0]]
        return jnp.zeros_like(total).at[order].set(total)
