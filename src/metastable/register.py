"""Kinds of your own, which specs, sweeps and verdicts then know by name.

Decorators for a class or function; and `load_plugin`, which runs a file of them. No spec can ask
for such a file: it is named in Python, or by `--plugin FILE` on the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from metastable.core.registry import load_plugin as load_plugin

Made = TypeVar("Made", bound=Callable[..., Any])


def field(kind: str) -> Callable[[Made], Made]:
    """A class of fields whose constructor is the spec: `field.kind = kind`, then its parameters."""
    from metastable.fields.spec import FIELDS

    return FIELDS.register(kind)


def start(kind: str) -> Callable[[Made], Made]:
    """A function that gives a measure, and whose signature is the spec."""
    from metastable.measures.spec import STARTS

    return STARTS.register(kind)


def stepper(kind: str) -> Callable[[Made], Made]:
    """A stepper whose constructor is the spec; its `solvers` say what moves each measure."""
    from metastable.flows.spec import STEPPERS

    return STEPPERS.register(kind)


def observable(
    name: str = "", *, about: str = "", of: str = "frame"
) -> Callable[[Callable[..., Any]], Any]:
    """A function of a measure that gives a number; with `of="run"`, one of a whole trajectory.

    A sweep names it in `observables`. `about` is what the axis says; by default the first line of
    the docstring.
    """
    from metastable.sweep.observables import register_observable

    return lambda function: register_observable(function, name, about, of)


def claim(function: Any = None, *, of: str = "run") -> Any:
    """A function of a `Case` that gives a `Verdict`, or None where it is not about such a run.

    With `of="sweep"` one of a whole sweep: of its means by cell and their standard errors, NAME and
    NAME_error, an `xarray.Dataset` over the axes. There are means across cells, and laws in β.
    """
    if of not in ("run", "sweep"):
        raise ValueError(f"of must be 'run' or 'sweep'; got {of!r}.")

    def keep(function: Made) -> Made:
        if of == "sweep":
            from metastable.sweep.own import OVERALL

            OVERALL.append(function)
        else:
            from metastable.comparison import CLAIMS

            CLAIMS.append(function)
        return function

    return keep if function is None else keep(function)
