"""Which theorem, if any, says that all tokens end in one cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

# Smallest β for which one cluster is proved on the circle; below −2/3 it is false.
_CIRCLE_BETA = -0.16


@dataclass(frozen=True)
class ClusterTheorem:
    """A proved single-cluster statement.

    `rate` is the asymptotic rate λ in ‖x_i − x*‖ ~ e^{−λt} (derived here by linearising at the
    final point, uniform weights), or None where it depends on the point reached. The theorems
    themselves only assert convergence, and for some cases that λ > 0 exists.
    """

    name: str
    source: str
    statement: str
    rate: float | None


def single_cluster_theorem(
    beta: float,
    dim: int,
    *,
    tokens: int,
    query: ArrayLike | None = None,
    key: ArrayLike | None = None,
    value: ArrayLike | None = None,
    causal: bool = False,
    normalized: bool = True,
    hemisphere: bool | None = None,
) -> ClusterTheorem | None:
    """The strongest theorem that applies to n tokens on S^{d−1}, or None when there is none.

    `hemisphere` says whether the start lies in one open hemisphere (None: not known, and a generic
    start is meant); matrices default to the identity, and a number is a multiple of it. All
    theorems need V = I. A negative β with free Q, K is the same as |β| with −Q, so the first three
    cases do not ask for its sign.

    | case | asks for | start |
    |---|---|---|
    | causal | V = I, any Q, K, β, softmax | almost every |
    | hemisphere | V = I, any Q, K, β | in one open hemisphere |
    | d ≥ n | V = I, any Q, K, β | almost every |
    | d ≥ 3 | Q = K = V = I, β ≥ 0 | almost every |
    | d = 2 | Q = K = V = I, β ≥ −0.16 | almost every |

    Sources: [karagodin2024clustering, Thm 4.1], [geshkovski2023mathematical, §§4–6],
    [criscitiello2024synchronization], [polyanskiy2025synchronization]. The last two are stated for
    the unnormalised flow; SA is a gradient flow of the same energy in another metric, with the
    same critical points and the same unstable directions.

    >>> single_cluster_theorem(9.0, 2, tokens=1000).name
    'circle'
    >>> single_cluster_theorem(-0.7, 2, tokens=1000) is None
    True
    """
    if tokens < 1 or dim < 2:
        raise ValueError(
            f"tokens must be ≥ 1 and dim ≥ 2, got {tokens} and {dim}; tokens move on S^(dim-1)."
        )
    if not _is_identity(value, dim):
        return None
    plain = _is_identity(query, dim) and _is_identity(key, dim)
    if causal:
        if not normalized:
            return None
        return ClusterTheorem(
            "causal",
            "karagodin2024clustering, Thm 4.1",
            "Every token converges to the first token's initial position, from almost every start.",
            0.5 if tokens > 1 else None,
        )
    # At the final point all logits of a token are equal, so attention is the plain mean: rate 1.
    # Unnormalised attention keeps the factor e^{β⟨Qx*,Kx*⟩}, known only for Q = K = I.
    rate = 1.0 if normalized else (_exp(beta) if plain else None)
    if hemisphere:
        return ClusterTheorem(
            "hemisphere",
            "geshkovski2023mathematical, §6.1",
            "Tokens in one open hemisphere converge to one point, exponentially fast.",
            rate,
        )
    if dim >= tokens and hemisphere is None:
        return ClusterTheorem(
            "high dimension",
            "geshkovski2023mathematical, §6.1",
            "With d ≥ n almost every start lies in a hemisphere and collapses exponentially fast.",
            rate,
        )
    if not plain:
        return None
    if dim >= 3 and beta >= 0:
        return ClusterTheorem(
            "sphere",
            "geshkovski2023mathematical, §§4–5; criscitiello2024synchronization",
            "For d ≥ 3 and every β ≥ 0 almost every start converges to one point.",
            rate,
        )
    if dim == 2 and beta >= _CIRCLE_BETA:
        return ClusterTheorem(
            "circle",
            "polyanskiy2025synchronization",
            "On the circle almost every start converges to one point for every β ≥ −0.16.",
            rate,
        )
    return None


def convex_cluster_theorem(
    dim: int,
    *,
    connected: bool = True,
    complete: bool = True,
    linear: bool = False,
    hemisphere: bool | None = None,
) -> ClusterTheorem | None:
    """The same for pulls W′(⟨x_i,x_j⟩) > 0 with W convex, along the edges of a graph, or None.

    On S^{d−1} with d ≥ 3 and a connected graph almost every start ends in one point; tokens in one
    open hemisphere do so on any sphere; on the circle a graph may hold twisted states, and a sharp
    W several clusters.

    Source: [markdahl2018almost], [criscitiello2024synchronization] (d ≥ 3, W increasing and
    convex); cone collapse for the hemisphere. The complete graph of a `linear` W (Kuramoto without
    frequencies) also on the circle: its energy ‖m‖²/2 has no other maxima.

    >>> convex_cluster_theorem(3).name
    'convex pull'
    >>> convex_cluster_theorem(2) is None
    True
    """
    if not connected:
        return None
    if hemisphere:
        source = "geshkovski2023mathematical, §6.1"
        statement = "Tokens in one open hemisphere converge to one point."
        return ClusterTheorem("hemisphere", source, statement, None)
    if dim >= 3:
        return ClusterTheorem(
            "convex pull",
            "markdahl2018almost; criscitiello2024synchronization",
            "For d ≥ 3, a connected graph and an increasing convex potential almost every start "
            "converges to one point.",
            None,
        )
    if complete and linear:
        statement = "On the circle almost every start of equal oscillators converges to one point."
        return ClusterTheorem("Kuramoto", "dorfler2014synchronization", statement, None)
    return None


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _is_identity(matrix: ArrayLike | None, dim: int) -> bool:
    if matrix is None:
        return True
    m = np.asarray(matrix, dtype=float)
    if m.ndim == 0:  # a multiple of the identity
        return bool(abs(m - 1) < 1e-12)
    return m.shape == (dim, dim) and bool(np.allclose(m, np.eye(dim), rtol=0, atol=1e-12))
