"""What a sum has to evaluate: logits between places and tokens, stated without an n × n array."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float

Attended = tuple[Float[Array, " m"], Float[Array, "m v"]]


class Bias(eqx.Module):
    """A logit that depends on the positions of a pair of tokens only (mask, decay, window)."""

    @abstractmethod
    def __call__(self, row: Float[Array, " a"], column: Float[Array, " b"]) -> Float[Array, "a b"]:
        """The logit added at these times; −∞ hides the column token from the row token."""


class Kernel(eqx.Module):
    """log k_ij = β⟨left_i, right_j⟩ + row_i + column_j + Σ bias(s_i, s_j).

    `column` carries the log masses, so a token of mass w counts w times. `zonal` says that left
    and right are unit vectors and β ≥ 0, i.e. k = e^{β⟨x,y⟩} with no bias: fast sums exist for
    this case only. `own` says that left and right are the same array.
    """

    beta: Float[Array, ""]
    left: Float[Array, "m p"]
    right: Float[Array, "n p"]
    column: Float[Array, " n"]
    row: Float[Array, " m"] | None = None
    biases: tuple[Bias, ...] = ()
    row_times: Float[Array, " m"] | None = None
    column_times: Float[Array, " n"] | None = None
    zonal: bool = eqx.field(static=True, default=False)
    own: bool = eqx.field(static=True, default=False)


class Sum(eqx.Module):
    """A way to evaluate Σ_j k_ij and Σ_j k_ij v_j / Σ_j k_ij for all i."""

    @abstractmethod
    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        """log Σ_j k_ij, shape (m,), and the k-weighted mean of the values, shape (m, v)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How the result names this choice."""
