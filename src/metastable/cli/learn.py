"""`metastable learn SPEC.toml`: training and control, from a spec to a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from metastable.cli.options import Debug, Json
from metastable.core.interrupts import interruption
from metastable.core.spec import Spec

__all__ = ["carry_out", "learn"]


def learn(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml", help="What to learn; see docs.")],
    out: Annotated[
        Path | None, typer.Option(help="New folder for page, figures, numbers and checkpoints.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Carry out one experiment; print its facts, and keep it in a folder with --out.

    The same command run again on a folder that was interrupted goes on where it stopped.
    """
    from metastable import kinds

    carry_out(kinds.load(spec), out, as_json)


def carry_out(spec: Spec, out: Path | None, as_json: bool) -> None:
    """Carry out a spec, print its answer, and end with the code that this asks for."""
    from metastable.core.verdict import Comparison
    from metastable.results import answer_and_keep

    answer = answer_and_keep(spec, out)
    verdicts = Comparison(answer.verdicts, "none")
    if as_json:
        print(json.dumps(answer.to_json() | {"out": None if out is None else str(out)}))
    else:
        print(answer)
        if verdicts.rows:
            verdicts.print()
        if out is not None:
            print(f"page in {out / 'report.html'}")
    sys.stdout.flush()
    if answer.outcome.name == "interrupted":
        remedy = "" if out is not None else " With --out DIR it can be gone on with."
        print(f"metastable: {interruption(out)}{remedy}", file=sys.stderr)
        raise typer.Exit(130)
    if answer.outcome.name == "diverged" or not verdicts.agrees:
        raise typer.Exit(1)
