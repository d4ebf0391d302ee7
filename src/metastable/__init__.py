"""Metastable: a laboratory for transformers seen as interacting particles.

A token is a particle, depth is time, a prompt is a measure, attention is the field that moves it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# Public names are imported on first use, so that `metastable --help` need not load JAX.
_HOME = {
    "metastable.measures": """Points caps from_array gaussian_points orthogonal planted polygon
        positional simplex uniform von_mises_fisher""",
    "metastable.fields": """Alibi Block DepthSqrt FeedForward Field Gain Krause Kuramoto L2Attention
        Mix MultiHead NGPT Noise PeriNorm PostNorm Potential PreNorm Rescaled Rope Schedule
        SelfAttention SinkhornAttention Window""",
    "metastable.fields.sums": "Dense",
    "metastable.flows": "Adaptive Fixed Geodesic Outcome Trajectory flow layers",
    "metastable.observe": "clusters effective_rank energy similarity",
}
_WHERE = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = ["__version__", *sorted(_WHERE)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'metastable' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from metastable.fields import *
    from metastable.fields.sums import Dense as Dense
    from metastable.flows import *
    from metastable.measures import *
    from metastable.observe import *
