"""Metastable: a laboratory for transformers seen as interacting particles.

A token is a particle, depth is time, a prompt is a measure, attention is the field that moves it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from metastable.core.lazy import attach

__version__ = "0.2.0"

# JAX is loaded with the first public name, which may be used inside a compiled function: too late
# to ask for float64. It is asked for here, of the loaded JAX or of the one to come.
if "jax" in sys.modules:
    import_module("metastable.core.numerics")
else:
    os.environ.setdefault("JAX_ENABLE_X64", "1")

# The public names stand in `__init__.pyi`, a line each. They are imported on first use, so that
# `metastable --help` answers without loading JAX.
__getattr__, __dir__, _names = attach("metastable", __file__)
# `open` would hide Python's own in a star import.
__all__ = ["__version__", *(n for n in _names if n != "open")]  # pyright: ignore[reportUnsupportedDunderAll]
