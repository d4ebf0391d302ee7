"""`metastable learn SPEC.toml`: training and control, from a spec to a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.options import Debug, Json
from metastable.core.interrupts import interruption
from metastable.core.spec import Spec


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

    carry_out(kinds.load_spec(spec, kind=None), out, as_json)


def carry_out(spec: Spec, out: Path | None, as_json: bool) -> None:
    """Carry out a spec, print its result, and end with the code that this asks for."""
    from metastable import kinds
    from metastable.core.result import plain

    result = kinds.run(spec, out)
    if as_json:
        data = {name: _arrays(dataset) for name, dataset in result.data.items()}
        print(json.dumps(result.to_dict() | {"data": plain(data)}))
    else:
        print(result)
        if result.verdicts.rows:
            result.verdicts.print()
        if out is not None:
            print(f"page in {out / 'report.html'}")
    sys.stdout.flush()
    if result.outcome.name == "interrupted":
        remedy = "" if out is not None else " With --out DIR it can be gone on with."
        print(f"metastable: {interruption(out)}{remedy}", file=sys.stderr)
        raise typer.Exit(130)
    if result.outcome.name == "diverged" or not result.verdicts.agrees:
        raise typer.Exit(1)


def _arrays(dataset: Any) -> dict[str, Any]:
    """The numbers of a dataset by their labels."""
    return {array.attrs.get("label", name): array.values for name, array in dataset.items()}
