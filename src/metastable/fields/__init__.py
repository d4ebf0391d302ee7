"""What moves the measure: attention and its relatives, heads, blocks, noise, schedules."""

from typing import Any

from metastable.core.lazy import public, registered
from metastable.fields.attention import SelfAttention as SelfAttention
from metastable.fields.block import NGPT as NGPT
from metastable.fields.block import Block as Block
from metastable.fields.block import DepthSqrt as DepthSqrt
from metastable.fields.block import FeedForward as FeedForward
from metastable.fields.block import Gain as Gain
from metastable.fields.block import Mix as Mix
from metastable.fields.block import PeriNorm as PeriNorm
from metastable.fields.block import PostNorm as PostNorm
from metastable.fields.block import PreNorm as PreNorm
from metastable.fields.field import Field as Field
from metastable.fields.field import Superposition as Superposition
from metastable.fields.heads import MultiHead as MultiHead
from metastable.fields.noise import Noise as Noise
from metastable.fields.pairwise import Krause as Krause
from metastable.fields.pairwise import Kuramoto as Kuramoto
from metastable.fields.pairwise import Potential as Potential
from metastable.fields.position import Alibi as Alibi
from metastable.fields.position import Rope as Rope
from metastable.fields.position import Window as Window
from metastable.fields.rescaled import Rescaled as Rescaled
from metastable.fields.schedule import Schedule as Schedule
from metastable.fields.variants import L2Attention as L2Attention
from metastable.fields.variants import SinkhornAttention as SinkhornAttention
from metastable.spec.fields import FIELDS

__all__ = public(vars())  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    return registered(name, "metastable.fields", FIELDS.homes)
