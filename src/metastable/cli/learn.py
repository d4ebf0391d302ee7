"""`metastable learn SPEC.toml`: training and control, from a spec to a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.options import Debug, Json
from metastable.core.interrupts import interruption

__all__ = ["answer", "learn"]


def learn(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml", help="What to learn; see docs.")],
    out: Annotated[
        Path | None, typer.Option(help="New folder for page, figures, numbers and checkpoints.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Carry out one lesson; print its facts, and keep it in a folder with --out.

    The same command run again on a folder whose lesson was cut short goes on where it stopped.
    """
    from metastable.learn.spec import load_lesson
    from metastable.results import learn_and_keep

    answer(learn_and_keep(load_lesson(spec), out), out, as_json)


def answer(lesson: Any, out: Path | None, as_json: bool) -> None:
    """Print a lesson, and end with the code that its outcome asks for."""
    if as_json:
        print(json.dumps(lesson.to_json() | {"out": None if out is None else str(out)}))
    else:
        print(lesson)
        if out is not None:
            print(f"page in {out / 'report.html'}")
    if lesson.outcome.name == "interrupted":
        remedy = "" if out is not None else " A lesson with --out DIR can be gone on with."
        print(f"metastable: {interruption(out)}{remedy}", file=sys.stderr)
        raise typer.Exit(130)
    if lesson.outcome.name == "diverged":
        raise typer.Exit(1)
