"""The checker under the tests: beartype on every annotation that states the shape of an array.

Other annotations are left to pyright: our own refusals answer for wrong numbers and words, and
tests ask for those.
"""

from typing import Any

from beartype import beartype
from beartype.roar import BeartypeDecorHintException

UNCHECKED = []  # functions with a shape that beartype cannot read


def checked(function):
    states = {
        name: hint if "Array" in str(hint) and "[" in str(hint) else Any
        for name, hint in getattr(function, "__annotations__", {}).items()
    }
    if set(states.values()) <= {Any}:
        return function
    function.__annotations__ = states
    try:
        return beartype(function)
    except BeartypeDecorHintException:
        UNCHECKED.append(function.__qualname__)
        return function
