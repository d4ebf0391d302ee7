"""How the measure moves: continuous depth, discrete depth, with noise, merging, or at β = ∞.

The public names stand in `__init__.pyi`; they are imported on first use.
"""

from metastable.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, registry="STEPPERS")
