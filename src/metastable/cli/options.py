"""Options that several commands have, and how their values are read."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, all else on stderr.")
]


def _load(paths: list[Path] | None) -> list[Path] | None:
    from metastable.core.registry import load_plugin

    for path in paths or ():
        load_plugin(path)
    return paths


Plugin = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        callback=_load,
        help="Run a Python file that registers fields, starts, observables or claims.",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def read_setting(text: str) -> tuple[str, Any]:
    """Key and value of KEY=VALUE; the value is TOML, or a string if it is not.

    >>> read_setting("betas=[1, 4]"), read_setting("corpus=sotu")
    (('betas', [1, 4]), ('corpus', 'sotu'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"--set must be KEY=VALUE, such as field.beta=9; got {text!r}.")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value  # a bare word is a string
