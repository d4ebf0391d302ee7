"""Softmax attention with a learned sink: a logit that takes weight and gives nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.attention import AttentionHead, act, logits
from metastable.fields.field import Places, show_value
from metastable.fields.position import Causal
from metastable.fields.sums import Bias, Sum
from metastable.measures import Points


class SinkAttention(AttentionHead):
    """Self-attention whose denominator has one more term, e^s, that carries no value.

    ẋ_i = P_{x_i} Σ_j w_j e^{β⟨Qx_i,Kx_j⟩} V x_j / (e^s + Σ_k w_k e^{β⟨Qx_i,Kx_k⟩})

    Source: the learned sink of gpt-oss (arXiv:2508.10925) and softmax off by one (s = 0), see
    arXiv:2309.17453; theory here derived. Masses sum to 1: a model that sums over n tokens and
    has the sink s' has s = s' − ln n.

    Each token runs in a clock of its own, Z_i/(Z_i + e^s) times as fast as under SA, Z_i its
    partition function. s → −∞ is SA; s → +∞ is USA in the time e^{−s}t. With V = I it climbs the
    same energy as both, in the metric Z_i + e^s. Near one cluster differences shrink at the rate
    e^β/(e^β + e^s).

    - `sink`: s. - `causal`: token i sees tokens of time ≤ its own, and the sink.

    Good values: s between 0 and β; there tokens far from others wait and those in clusters do not.

    >>> import metastable as ms
    >>> pair = ms.Points([[1.0, 0.0], [0.0, 1.0]])
    >>> SinkAttention(beta=0.0, sink=0.0).velocity(pair).tolist()
    [[0.0, 0.25], [0.25, 0.0]]
    """

    sink: Float[Array, ""]
    causal: bool = eqx.field(static=True)

    def __init__(
        self,
        beta: Any,
        sink: Any = 0.0,
        query: Any = None,
        key: Any = None,
        value: Any = None,
        causal: bool = False,
    ):
        super().__init__(beta, query, key, value)
        self.sink = jnp.asarray(checks.real("sink", sink), jnp.float64)
        self.causal = bool(causal)

    clock: ClassVar[str] = "sink"

    @property
    def position(self) -> tuple[Bias, ...]:
        return (Causal(),) if self.causal else ()

    @property
    def isotropic(self) -> bool:
        """Whether query, key and value are multiples of the identity and all tokens are seen."""
        operators = (self.query, self.key, self.value)
        return all(o is None or o.ndim == 0 for o in operators) and not self.causal

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        kernel = logits(self.beta, self.query, self.key, self.position, measure, at)
        log_mass, mean = sum.attend(kernel, measure.points)
        share = jax.nn.sigmoid(log_mass.astype(mean.dtype) - self.sink.astype(mean.dtype))
        return act(self.value, share[:, None] * mean)

    def shown(self) -> list[str]:
        beta, *others = super().shown()
        causal = ["causal=True"] if self.causal else []
        return [beta, f"sink={show_value(self.sink)}", *others, *causal]
