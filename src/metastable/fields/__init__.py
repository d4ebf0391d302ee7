"""What moves the measure: attention and its relatives, heads, blocks, noise, schedules."""

from metastable.fields.attention import SelfAttention
from metastable.fields.block import (
    NGPT,
    Block,
    DepthSqrt,
    FeedForward,
    Gain,
    Mix,
    PeriNorm,
    PostNorm,
    PreNorm,
)
from metastable.fields.field import Field, Superposition
from metastable.fields.heads import MultiHead
from metastable.fields.noise import Noise
from metastable.fields.pairwise import Krause, Kuramoto, Potential
from metastable.fields.position import Alibi, Rope, Window
from metastable.fields.rescaled import Rescaled
from metastable.fields.schedule import Schedule
from metastable.fields.variants import L2Attention, SinkhornAttention

__all__ = [
    "NGPT",
    "Alibi",
    "Block",
    "DepthSqrt",
    "FeedForward",
    "Field",
    "Gain",
    "Krause",
    "Kuramoto",
    "L2Attention",
    "Mix",
    "MultiHead",
    "Noise",
    "PeriNorm",
    "PostNorm",
    "Potential",
    "PreNorm",
    "Rescaled",
    "Rope",
    "Schedule",
    "SelfAttention",
    "SinkhornAttention",
    "Superposition",
    "Window",
]
