"""The checker under the tests: beartype on every annotation that states the shape of an array.

Shapes and kinds of number are checked, of arrays of JAX and of NumPy alike. Other annotations are
left to pyright: our own refusals answer for wrong numbers and words, and tests ask for those.
"""

import types
from typing import Any, Union, get_args, get_origin

import jax
import jaxtyping
import numpy as np
from beartype import beartype
from beartype.roar import BeartypeDecorHintException

EITHER = jax.Array | np.ndarray
UNCHECKED = []  # functions with a shape that beartype cannot read


def loosened(hint):
    """The hint with NumPy's arrays allowed beside JAX's; None where it states no shape."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        kind = getattr(jaxtyping, hint.__name__.split("[")[0])
        return kind[EITHER, hint.dim_str]
    if get_origin(hint) in (Union, types.UnionType):
        parts = [loosened(part) or part for part in get_args(hint)]
        known = any(loosened(part) is not None for part in get_args(hint))
        return Union[tuple(parts)] if known else None  # noqa: UP007
    return None


def checked(function):
    hints = getattr(function, "__annotations__", {})
    states = {name: loosened(hint) for name, hint in hints.items()}
    if not any(hint is not None for hint in states.values()):
        return function
    function.__annotations__ = {name: hint or Any for name, hint in states.items()}
    try:
        return beartype(function)
    except BeartypeDecorHintException:
        UNCHECKED.append(function.__qualname__)
        return function
