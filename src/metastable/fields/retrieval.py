"""Attention whose weights by position are normalised and whose kernel is not."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.core.spec import NonNegative, Positive, Whole
from metastable.fields.field import Field, Places
from metastable.fields.position import Alibi, Causal, Window
from metastable.fields.sums import Bias, Kernel, Sum
from metastable.measures import Points


class PositionalAttention(Field):
    """Position decides how much of each token is seen; the kernel e^{β⟨x,y⟩} is not normalised.

    ẋ_i = P_{x_i} Σ_j π_ij e^{β⟨x_i,x_j⟩} x_j,  π_ij = w_j e^{b_ij} / Σ_k w_k e^{b_ik},
    b_ij = −slope·|s_i − s_j|, −∞ for tokens of later time (`causal`) or outside the window.

    Source: Duerinckx, Geshkovski, Rossi, arXiv:2605.09213 (abstract and public code): the chain in
    which the middle is lost. Token i sees itself too, which exerts no force and is of no account
    when tokens are many. Clock: USA; the paper's force βe^{β cos}sin runs β times as fast.

    - `slope`: ALiBi's, in units of token time; λ/n for the decay e^{−λ} along n tokens.
    - `width`, `sinks`: a sliding window, and how many first tokens stay visible; None: no window.

    Expected: from uniform starts the last token remembers the first and the latest tokens best
    (`metastable.theory.retrieval`). Good values: β = 1, slope = 1/n, t ≈ 1.8.

    >>> import metastable as ms
    >>> pair = ms.Points([[1.0, 0.0], [0.0, 1.0]])
    >>> PositionalAttention(beta=0.0).velocity(pair).tolist()
    [[0.0, 0.0], [0.5, 0.0]]
    """

    beta: Float[Array, ""]
    position: tuple[Bias, ...]

    def __init__(
        self,
        beta: NonNegative,
        slope: NonNegative = 0.0,
        causal: bool = True,
        width: Positive | None = None,
        sinks: Whole = 0,
    ):
        self.beta = jnp.asarray(checks.nonnegative("beta", beta), jnp.float64)
        window = () if width is None else (Window(width, sinks),)
        self.position = ((Causal(),) if causal else ()) + (Alibi(slope), *window)

    @property
    def clock(self) -> str:
        return "USA"

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        if at.times is None:
            raise ValueError(
                "a positional field evaluated away from its tokens needs their times: pass "
                "at=Points(points, times=...)."
            )
        kernel = lambda beta: Kernel(
            beta=beta,
            left=at.points,
            right=measure.points,
            column=jnp.log(measure.weights),
            biases=self.position,
            row_times=at.times,
            column_times=measure.positions,
        )
        log_mass, mean = sum.attend(kernel(self.beta), measure.points)
        log_seen, _ = sum.attend(kernel(jnp.zeros_like(self.beta)), measure.points[:, :1])
        # A place that sees no mass has both logarithms −∞, and does not move.
        blind = jnp.isneginf(log_seen)
        return jnp.exp(jnp.where(blind, 0.0, log_mass - log_seen))[:, None] * mean
