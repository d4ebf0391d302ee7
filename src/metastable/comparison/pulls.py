"""Fields that pull along a convex potential, and what is proved of their end."""

from __future__ import annotations

from metastable.fields import (
    Field,
    Kuramoto,
    KuramotoNetwork,
    SigmoidAttention,
    SinkAttention,
)
from metastable.theory import networks, regimes


def convex_pull(field: Field) -> bool:
    """Whether every token pulls its neighbours by W′ > 0 with W convex."""
    if isinstance(field, Kuramoto | KuramotoNetwork):
        return field.frequencies is None and float(field.coupling) > 0
    if not isinstance(field, SigmoidAttention | SinkAttention) or not field.isotropic:
        return False
    sizes = [1.0 if o is None else float(o) for o in (field.query, field.key, field.value)]
    return sizes[0] * sizes[1] >= 0 and sizes[2] > 0


def cluster_theorem(
    field: Field, dim: int, tokens: int | None, hemisphere: bool | None
) -> regimes.ClusterTheorem | None:
    """What is proved of the end of a convex pull; None where nothing is."""
    if not convex_pull(field):
        return None
    graph = isinstance(field, KuramotoNetwork) and field.edges != "complete"
    connected = True
    if isinstance(field, KuramotoNetwork) and graph and not isinstance(field.edges, str):
        count = tokens if tokens is not None else 1 + max(max(pair) for pair in field.edges)
        connected = networks.is_connected(field.pairs(count), count)
    linear = isinstance(field, Kuramoto | KuramotoNetwork)
    return regimes.convex_cluster_theorem(
        dim, connected=connected, complete=not graph, linear=linear, hemisphere=hemisphere
    )
