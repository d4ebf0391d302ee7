"""Options that every command has."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Debug", "Json"]

Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, all else on stderr.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
