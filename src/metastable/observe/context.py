"""Rows of attention in a long context: how many tokens a token looks at, by a sample of rows."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.attention import act, matrix
from metastable.measures import Points

BLOCK = {"cpu": 2**16, "gpu": 2**27}  # logits alive at once: in the cache, or in many cores


class RowSample(NamedTuple):
    """Statistics of chosen attention rows, each of shape (rows,), gap counts (rows, gaps)."""

    participation: np.ndarray  # Σw²: one over the number of tokens looked at
    largest: np.ndarray  # max w
    entropy: np.ndarray  # −Σ w log w, in nats
    gap_counts: np.ndarray  # how many other tokens lie within each gap of the largest logit

    @property
    def mean(self) -> dict[str, Any]:
        """The mean of each over the rows."""
        return {name: value.mean(axis=0) for name, value in self._asdict().items()}

    @property
    def error(self) -> dict[str, Any]:
        """Standard error of each mean, rows taken for independent."""
        count = max(len(self.largest) - 1, 1)
        return {name: value.std(axis=0) / count**0.5 for name, value in self._asdict().items()}


def attention_rows(
    measure: Points,
    beta: float,
    query: Any = None,
    key: Any = None,
    *,
    rows: int = 256,
    own: bool = True,
    gaps: Any = (),
    seed: int = 0,
) -> RowSample:
    """Participation Σw², largest weight, entropy and gap counts of a random sample of rows.

    w_j ∝ m_j e^{β⟨Qx_i,Kx_j⟩} with masses m_j, for `rows` tokens i drawn without replacement;
    without `own` token i itself is left out. Gap counts: tokens other than the first whose
    ⟨Qx_i,Kx_j⟩ lies within each of `gaps` of the largest (not multiplied by β), the gap-counting
    function of arXiv:2605.12697 (abstract).

    Rows that look at different tokens are nearly independent; the error of a mean counts on it.
    Cost rows·n exponentials, memory a block of rows, at most a few times 2^16 numbers on a CPU:
    a million tokens are no problem. Compare with `theory.window_law` for uniform tokens.

    >>> import metastable as ms
    >>> sample = attention_rows(ms.orthogonal(2, 2), beta=np.log(3), gaps=[0.5, 1.0])
    >>> sample.largest.round(6).tolist(), sample.gap_counts.tolist()
    ([0.75, 0.75], [[0, 1], [0, 1]])
    """
    checks.defined_for("attention_rows", measure, Points)
    checks.real("beta", beta)
    chosen = np.random.default_rng(checks.seed(seed)).permutation(measure.count)
    chosen = jnp.asarray(chosen[: checks.integer("rows", rows, 1)])
    left = act(matrix("query", query), measure.points)[chosen]
    right = act(matrix("key", key), measure.points)
    limit = BLOCK.get(jax.default_backend(), BLOCK["gpu"])
    block = min(len(chosen), max(1, limit // measure.count))
    widths = jnp.asarray([*gaps, 0.0], float)  # lax.map refuses results without a number
    found = _rows(left, right, jnp.log(measure.weights), chosen, beta, widths, own, block)
    participation, largest, entropy, counts = (np.asarray(value) for value in found)
    return RowSample(participation, largest, entropy, counts[:, :-1])


@partial(jax.jit, static_argnames=("own", "block"))
def _rows(
    left: Float[Array, "r p"], right: Array, log_mass: Array, chosen: Array, beta: Any,
    gaps: Array, own: bool, block: int,
) -> tuple[Array, ...]:  # fmt: skip
    def row(one: tuple[Array, Array]) -> tuple[Array, ...]:
        query, index = one
        score = right @ query
        if not own:
            score = score.at[index].set(-jnp.inf)
        top = jnp.max(jnp.where(jnp.isneginf(log_mass), -jnp.inf, score))
        counts = jax.lax.map(lambda gap: jnp.sum(score >= top - gap) - 1, gaps)
        logit = beta * (score - top) + log_mass
        high = jnp.max(logit)
        z = jnp.exp(logit - high)
        mass = z.sum()
        # Σ w log w with w = z/mass: 0 · log 0 is 0.
        mean_logit = jnp.sum(jnp.where(z > 0, z * (logit - high), 0.0)) / mass
        return jnp.sum(z * z) / mass**2, 1 / mass, jnp.log(mass) - mean_logit, counts

    return jax.lax.map(row, (left, chosen), batch_size=block)
