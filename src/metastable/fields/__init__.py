"""What moves the measure: attention and its relatives, heads, blocks, noise, schedules.

The public names stand in `__init__.pyi`; they are imported on first use.
"""

from metastable.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, registry="FIELDS")
