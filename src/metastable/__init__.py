"""Metastable: a laboratory for transformers seen as interacting particles.

A token is a particle, depth is time, a prompt is a measure, attention is the field that moves it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from metastable.core.lazy import lazy

__version__ = "0.1.0"

# JAX is loaded with the first public name, which may be used inside a compiled function: too late
# to ask for float64. It is asked for here, of the loaded JAX or of the one to come.
if "jax" in sys.modules:
    import_module("metastable.core.numerics")
else:
    os.environ.setdefault("JAX_ENABLE_X64", "1")

if TYPE_CHECKING:
    from metastable.comparison import cite as cite
    from metastable.comparison import compare as compare
    from metastable.comparison import predict as predict
    from metastable.comparison.run import trajectory_of as trajectory_of
    from metastable.core.result import Result as Result
    from metastable.fields import NGPT as NGPT
    from metastable.fields import Alibi as Alibi
    from metastable.fields import Block as Block
    from metastable.fields import DepthSqrt as DepthSqrt
    from metastable.fields import FeedForward as FeedForward
    from metastable.fields import Field as Field
    from metastable.fields import Gain as Gain
    from metastable.fields import Krause as Krause
    from metastable.fields import Kuramoto as Kuramoto
    from metastable.fields import L2Attention as L2Attention
    from metastable.fields import Mix as Mix
    from metastable.fields import MultiHead as MultiHead
    from metastable.fields import Noise as Noise
    from metastable.fields import PeriNorm as PeriNorm
    from metastable.fields import PostNorm as PostNorm
    from metastable.fields import Potential as Potential
    from metastable.fields import PreNorm as PreNorm
    from metastable.fields import Rescaled as Rescaled
    from metastable.fields import Rope as Rope
    from metastable.fields import Schedule as Schedule
    from metastable.fields import SelfAttention as SelfAttention
    from metastable.fields import SinkhornAttention as SinkhornAttention
    from metastable.fields import Window as Window
    from metastable.fields.sums import CircleSum as CircleSum
    from metastable.fields.sums import Dense as Dense
    from metastable.fields.sums import GaussianSum as GaussianSum
    from metastable.fields.sums import HarmonicSum as HarmonicSum
    from metastable.fields.sums import SphereSum as SphereSum
    from metastable.flows import Adaptive as Adaptive
    from metastable.flows import Fixed as Fixed
    from metastable.flows import Geodesic as Geodesic
    from metastable.flows import Hardmax as Hardmax
    from metastable.flows import Layers as Layers
    from metastable.flows import Merging as Merging
    from metastable.flows import Outcome as Outcome
    from metastable.flows import Resolution as Resolution
    from metastable.flows import Trajectory as Trajectory
    from metastable.flows import flow as flow
    from metastable.kinds import open as open
    from metastable.kinds import run as run
    from metastable.measures import Density as Density
    from metastable.measures import Gaussian as Gaussian
    from metastable.measures import Points as Points
    from metastable.measures import caps as caps
    from metastable.measures import from_array as from_array
    from metastable.measures import gaussian_points as gaussian_points
    from metastable.measures import orthogonal as orthogonal
    from metastable.measures import planted as planted
    from metastable.measures import polygon as polygon
    from metastable.measures import positional as positional
    from metastable.measures import simplex as simplex
    from metastable.measures import uniform as uniform
    from metastable.measures import von_mises_fisher as von_mises_fisher
    from metastable.observe import clusters as clusters
    from metastable.observe import effective_rank as effective_rank
    from metastable.observe import energy as energy
    from metastable.observe import similarity as similarity

# Where each public name lives. They are imported on first use, so that `metastable --help` answers
# without loading JAX; a test holds this table and the imports above together.
_HOMES = {
    "measures": (
        "Density Gaussian Points caps from_array gaussian_points orthogonal planted polygon "
        "positional simplex uniform von_mises_fisher"
    ),
    "fields": (
        "Alibi Block DepthSqrt FeedForward Field Gain Krause Kuramoto L2Attention Mix MultiHead "
        "NGPT Noise PeriNorm PostNorm Potential PreNorm Rescaled Rope Schedule SelfAttention "
        "SinkhornAttention Window"
    ),
    "fields.sums": "CircleSum Dense GaussianSum HarmonicSum SphereSum",
    "flows": ("Adaptive Fixed Geodesic Hardmax Layers Merging Outcome Resolution Trajectory flow"),
    "observe": "clusters effective_rank energy similarity",
    "comparison": "cite compare predict",
    "comparison.run": "trajectory_of",
    "core.result": "Result",
    "kinds": "open run",
}
__getattr__, __dir__, _names = lazy(
    "metastable", _HOMES, parts="fields flows learn measures models observe register report theory"
)
# `open` would hide Python's own in a star import.
__all__ = ["__version__", *(n for n in _names if n != "open")]  # pyright: ignore[reportUnsupportedDunderAll]
