"""What several commands have in common: options, how values are read, how a command ends."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
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
Csv = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE.csv", help="Write the table into a new CSV file too."),
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


def given_options(options: dict[str, Any], *left_out: str) -> dict[str, Any]:
    """The options that were given, those `left_out` aside."""
    return {k: v for k, v in options.items() if v is not None and k not in left_out}


def show(content: Any, as_json: bool, print_text: Callable[[], None]) -> None:
    """Print one JSON object, or what `print_text` prints."""
    if as_json:
        print(json.dumps(content))
    else:
        print_text()


def leave(*, interrupted: bool, failed: bool) -> None:
    """End with code 130 where a command was interrupted, 1 where it failed."""
    if interrupted or failed:
        raise typer.Exit(130 if interrupted else 1)


def conclude(result: Any, as_json: bool, print_text: Callable[[Any], None]) -> None:
    """Print a result, and end with the code that its outcome and its verdicts ask for."""
    show(result.to_dict(), as_json, lambda: print_text(result))
    ending = result.outcome.name
    failed = ending != "done" or not result.verdicts.agrees
    leave(interrupted=ending == "interrupted", failed=failed)
