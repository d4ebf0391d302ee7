"""Errors planted in what an entry uses: its verdict must flip.

An error is written as one line, about a name that the entry's module imports from the library:

- `SelfAttention.beta * 1.3`: the argument `beta` of every call is 1.3 times what the entry says;
- `flow.horizon + 0.5`, `flow.seed = 3`: the argument is moved, or replaced;
- `growth_rates * 1.3`: what the function returns is 1.3 times what it should be;
- `flow.times * 1.3`: of what it returns, an attribute that is no argument of it;
- `np.exp * 1.01`: a function of a module that the entry imports, wrong in this entry alone.

Nothing compiled has to be forgotten: only what goes in or what comes out is changed.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["Plant", "instead", "planted", "read_plant"]

_FORM = re.compile(r"(?P<name>\w+)(?:\.(?P<argument>\w+))? (?P<how>[*+=]) (?P<value>\S.*)")


@dataclass(frozen=True)
class Plant:
    """An error: which name, which argument of it (None: what it returns), and how it is changed."""

    name: str
    argument: str | None
    how: str
    value: Any

    def __str__(self) -> str:
        what = self.name if self.argument is None else f"{self.name}.{self.argument}"
        return f"{what} {self.how} {self.value!r}"


def read_plant(text: str) -> Plant:
    """The error that a line states.

    >>> read_plant("SelfAttention.beta * 1.3")
    Plant(name='SelfAttention', argument='beta', how='*', value=1.3)
    """
    found = _FORM.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        return Plant(
            found["name"], found["argument"], found["how"], ast.literal_eval(found["value"])
        )
    except (ValueError, SyntaxError):
        raise ValueError(
            f"planted must be NAME.ARGUMENT or NAME, then *, + or = and a number; got {text!r}."
        ) from None


@contextmanager
def planted(module: ModuleType, plant: Plant) -> Iterator[None]:
    """Let a module of the reproductions use something wrong until the block is left."""
    right = getattr(module, plant.name, None)
    if isinstance(right, ModuleType) and plant.argument is not None:
        inner = Plant(plant.argument, None, plant.how, plant.value)
        wrong: Any = _Altered(right, plant.argument, _wrong(getattr(right, inner.name), inner))
    elif callable(right):
        wrong = _wrong(right, plant)
    else:
        raise ValueError(f"{module.__name__} must use {plant.name}; it has no such function.")
    setattr(module, plant.name, wrong)
    try:
        yield
    finally:
        setattr(module, plant.name, right)


class _Altered(ModuleType):
    """A module in which one name means something else."""

    def __init__(self, right: ModuleType, name: str, wrong: Any):
        super().__init__(right.__name__)
        self.__dict__.update(_right=right, **{name: wrong})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_right"], name)


class _Kind(type):
    """A class that is called otherwise, and is the right one for everything else."""

    right: type
    call: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.call(*args, **kwargs)

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, cls.right)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.__dict__["right"], name)


def instead(right: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """What may stand for a function or a class where calls are to go to `call`."""
    if not isinstance(right, type):
        return functools.wraps(right, updated=())(call)
    return _Kind(right.__name__, (), {"right": right, "call": staticmethod(call)})


def _wrong(right: Callable[..., Any], plant: Plant) -> Callable[..., Any]:
    accepted = inspect.signature(right).parameters if plant.argument else {}
    named = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in accepted.values())

    def wrong(*args: Any, **kwargs: Any) -> Any:
        if plant.argument is None:
            return _changed(right(*args, **kwargs), plant)
        if plant.argument not in accepted and not named:
            return _altered(right(*args, **kwargs), plant)
        signature = inspect.signature(right)
        if plant.argument in kwargs or plant.argument not in signature.parameters:
            bound = None  # given by name, or caught by **kwargs
            value = kwargs.get(plant.argument)
        else:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            value = bound.arguments[plant.argument]
        if bound is None:
            return right(*args, **{**kwargs, plant.argument: _changed(value, plant)})
        bound.arguments[plant.argument] = _changed(value, plant)
        return right(*bound.args, **bound.kwargs)

    return instead(right, wrong)


def _altered(result: Any, plant: Plant) -> Any:
    """The same result with one of its attributes changed, or that of each result in a list."""
    assert plant.argument is not None
    if isinstance(result, list) or type(result) is tuple:
        return type(result)(_altered(each, plant) for each in result)
    value = _changed(getattr(result, plant.argument), plant)
    if hasattr(result, "_replace"):
        return result._replace(**{plant.argument: value})
    wrong = copy.copy(result)
    object.__setattr__(wrong, plant.argument, value)
    return wrong


def _changed(value: Any, plant: Plant) -> Any:
    """A number, an array, or the numbers of a list or tuple, changed; anything else as it is."""
    if plant.how == "=":
        return plant.value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, tuple | list):
        parts = [_changed(part, plant) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, int | float | complex | np.number | np.ndarray) or hasattr(value, "dtype"):
        return value * plant.value if plant.how == "*" else value + plant.value
    return value
