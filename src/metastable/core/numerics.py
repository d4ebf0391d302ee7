"""The numerics policy, applied once, before any array is made.

Everything is computed in float64 and with full-precision matrix products: the default of JAX
(float32, and TF32 products on GPUs) would forge the fourth digit of an attention logit.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from metastable.core.compiled import keep_compiled_code

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "highest")
keep_compiled_code()

__all__ = ["is_traced", "jax", "jnp"]


def is_traced(*trees: Any) -> bool:
    """Whether any leaf is an abstract value inside `jit`, `grad` or `vmap`.

    Checks that look at numbers are skipped there: the values are not known yet.
    """
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))
