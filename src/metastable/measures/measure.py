"""The abstract measure: what every description of a prompt must answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import equinox as eqx
import numpy as np

from metastable.core.show import Shown

Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]


class Measure(eqx.Module, Shown):
    """A probability measure that a field can move: `Points`, a `Density` or a `Gaussian`.

    A new description defines its dimension and how the frames of a run are written to a dataset
    and read back. A run may pass from one description to another: its frames of another type are
    None in both directions.
    """

    dim: eqx.AbstractVar[int]  # of the surrounding space

    @classmethod
    @abstractmethod
    def to_variables(cls, frames: Sequence[Self | None]) -> Variables:
        """Frames as variables of a dataset, name → (dimensions, array); the first axis is "time".

        What does not change from frame to frame may have other dimensions, or none.
        """

    @classmethod
    @abstractmethod
    def from_variables(cls, data: Mapping[Any, Any]) -> list[Self | None]:
        """Read back what `to_variables` gave; `data[name].values` are the arrays."""
