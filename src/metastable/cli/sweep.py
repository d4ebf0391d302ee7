"""Many runs: `sweep SPEC.toml --out STORE`, and `sweep status STORE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metastable.cli.options import Csv, Debug, Json, Plugin, leave, show

if TYPE_CHECKING:
    from metastable.sweep.execute import Summary


def sweep(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC.toml | status STORE", help="What to run, or whose state to tell."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="The store: new, or of this sweep.")] = None,
    workers: Annotated[int, typer.Option(help="Processes of this machine. [this one]")] = 0,
    scheduler: Annotated[
        str | None,
        typer.Option(help="A dask scheduler, tcp://HOST:8786, or slurm:JOBS to submit jobs."),
    ] = None,
    add: Annotated[
        bool, typer.Option("--add", help="Extend axes and repetitions of the store.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try failed cells again.")
    ] = False,
    csv: Csv = None,
    as_json: Json = False,
    plugin: Plugin = None,
    debug: Debug = False,
) -> None:
    """Run every cell of a sweep that its store does not have yet.

    Stopped or killed at any moment, the same command finishes exactly what is missing. The store
    opens with xarray.open_zarr, also while the sweep runs. A finished one has its page,
    report.html; `metastable report STORE` draws one that is under way.
    """
    if what[0] == "status":
        if len(what) != 2:
            raise ValueError(f"sweep status needs one STORE; got {len(what) - 1}.")
        return _status(Path(what[1]), as_json, csv)
    if len(what) != 1 or out is None:
        raise ValueError(
            "sweep needs one SPEC.toml and --out STORE; got "
            f"{' '.join(what)}{'' if out else ' without --out'}."
        )
    from metastable.sweep.execute import run_sweep
    from metastable.sweep.executors import LostScheduler
    from metastable.sweep.spec import Sweep

    say = lambda line: print(f"metastable: {line}", file=sys.stderr)
    try:
        spec = Sweep.load(what[0])
        who: dict[str, Any] = {"workers": workers, "scheduler": scheduler}
        summary = run_sweep(spec, out, add=add, retry_failed=retry_failed, say=say, **who)
    except LostScheduler as lost:
        say(str(lost))
        raise typer.Exit(1) from None
    if csv is not None:
        from metastable.sweep.status import write_means

        write_means(out, csv)
    if not (summary.left or summary.interrupted):
        from metastable.report.pages.sweep import report_sweep

        report_sweep(out)
    show(summary.to_dict(), as_json, lambda: _print_summary(summary))
    disagrees = summary.verdicts is not None and not summary.verdicts.agrees
    leave(interrupted=summary.interrupted, failed=summary.failed > 0 or disagrees)


def _print_summary(summary: Summary) -> None:
    from metastable.sweep.status import answers, open_sweep

    print(*answers(open_sweep(summary.store), summary.verdicts), sep="\n")
    text = f"{summary.done} of {summary.cells} cells done in {summary.seconds:.3g} s"
    text += f" ({summary.cells_per_second:.3g} cells/s)"
    if summary.skipped:
        text += f", {summary.skipped} were there before"
    if summary.failed:
        text += f", {summary.failed} failed (failures.json says why; --retry-failed)"
    if summary.left:
        text += f", {summary.left} are left: run the same command again"
    print(f"{text}\n{summary.store}")
    if summary.verdicts is not None and summary.verdicts.rows:
        summary.verdicts.print()


def _status(store: Path, as_json: bool, csv: Path | None) -> None:
    """What a store holds, without disturbing the sweep that may be writing it."""
    from metastable.sweep.status import status, write_means

    state = status(store)
    if csv is not None:
        write_means(store, csv)
    if as_json:
        print(json.dumps(state))
        return
    print(f"{state['done']} of {state['cells']} cells done, {state['failed']} failed")
    for axis, span in state["axes"].items():
        print(f"  {axis}: {span}")
    for cell, why in state["failures"].items():
        print(f"  failed at {cell}: {why['message']}")
