"""One piece of work and what is said of it: run, learn, predict, compare, report, doctor."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.options import Csv, Debug, Json, Plugin, conclude, leave, read_setting, show
from metastable.core.interrupts import interruption
from metastable.core.spec import Spec


def run(
    spec: Annotated[
        str | None, typer.Argument(metavar="[SPEC.toml]", help="What to run; see docs/spec.md.")
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Dimension d; tokens on S^{d-1}. [2]")] = None,
    tokens: Annotated[int | None, typer.Option(help="Number of tokens. [1000]")] = None,
    beta: Annotated[float | None, typer.Option(help="Inverse temperature, >= 0. [1]")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the start and of the noise.")] = None,
    horizon: Annotated[
        str | None,
        typer.Option(help="Final time, in the field's clock, or end with --merge. [20]"),
    ] = None,
    unnormalized: Annotated[
        bool, typer.Option("--unnormalized", help="USA instead of SA.")
    ] = False,
    noise: Annotated[
        float | None, typer.Option(help="Add noise of inverse strength KAPPA.")
    ] = None,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="Merge collapsed tokens; to the last one without --horizon."),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any key: flow.frames=401, field.value=-1."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New folder for the result.")] = None,
    plugin: Plugin = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run one flow; print its summary, and keep it in a folder with --out.

    Without SPEC: uniform tokens under self-attention, from the options. The same command run again
    on a folder whose run was cut short goes on where it stopped.
    """
    # Loading and tracing make a million objects that stay: looking through them again and again
    # takes a tenth of a short run.
    gc.set_threshold(100_000, 50, 100)
    from metastable import kinds
    from metastable.flows.spec import Experiment
    from metastable.report.text import print_result

    overrides: dict[str, Any] = {
        "measure.dim": dim,
        "measure.tokens": tokens,
        "measure.seed": seed,
        "field.beta": beta,
        "flow.horizon": _time(horizon),
        "flow.seed": seed,
        "field.normalized": False if unnormalized else None,
    }
    if merge:
        overrides["flow.stepper.kind"] = "merging"
        overrides["flow.horizon"] = "end" if horizon is None else _time(horizon)
    overrides = {key: value for key, value in overrides.items() if value is not None}
    overrides |= dict(read_setting(text) for text in set_ or [])
    work = Experiment.from_tree({}, overrides) if spec is None else kinds.load_spec(spec, overrides)
    if noise is not None and isinstance(work, Experiment):
        work = work.with_noise(noise)
    result = kinds.run(work, out)
    conclude(result, as_json, print_result)


def _time(text: str | None) -> float | str | None:
    """A number as one; anything else is left to the spec, which says what it takes."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


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


def carry_out(spec: Spec | dict[str, Any], out: Path | None, as_json: bool) -> None:
    """Carry out a spec, print its result, and end with the code that this asks for."""
    from metastable import kinds
    from metastable.core.result import plain

    result = kinds.run(kinds.make(spec) if isinstance(spec, dict) else spec, out)
    if as_json:
        data = {
            name: {array.attrs.get("label", key): array.values for key, array in dataset.items()}
            for name, dataset in result.data.items()
        }
        print(json.dumps(result.to_dict() | {"data": plain(data)}))
    else:
        print(result)
        if result.verdicts.rows:
            result.verdicts.print()
        if out is not None:
            print(f"page in {out / 'report.html'}")
    sys.stdout.flush()
    interrupted = result.outcome.name == "interrupted"
    if interrupted:
        remedy = "" if out is not None else " With --out DIR it can be gone on with."
        print(f"metastable: {interruption(out)}{remedy}", file=sys.stderr)
    found = result.kind != "audit" and not result.verdicts.agrees  # an audit may find what it likes
    failed = result.outcome.name == "diverged" or found
    leave(interrupted=interrupted, failed=failed)


def predict(
    dim: Annotated[int, typer.Option(help="Dimension d of the space; tokens on S^{d-1}.")],
    beta: Annotated[float, typer.Option(help="Inverse temperature, >= 0.")],
    tokens: Annotated[int | None, typer.Option(help="Number of uniform tokens.")] = None,
    unnormalized: Annotated[
        bool, typer.Option("--unnormalized", help="USA instead of SA.")
    ] = False,
    noise: Annotated[float | None, typer.Option(help="Noise of inverse strength KAPPA.")] = None,
    csv: Csv = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """What theory says: growth rates, exit time, first clusters, noise threshold, theorems."""
    from metastable.comparison import predict as ask
    from metastable.fields import Noise, SelfAttention

    field: Any = SelfAttention(beta, normalized=not unnormalized)
    if noise is not None:
        field = field + Noise(noise)
    prediction = ask(field, dim, tokens)
    if csv is not None:
        prediction.to_csv(csv)
    show(prediction.to_dict(), as_json, prediction.print)


def compare(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of a run or a sweep.")],
    csv: Csv = None,
    plugin: Plugin = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Verdict rows of a finished run or sweep; exit code 1 when something disagrees."""
    from metastable import kinds

    result = kinds.open(folder)
    verdicts = result.verdicts
    if csv is not None:
        verdicts.to_csv(csv)
    note = tell_unchecked(folder)
    if not as_json:
        print(result.sentence)
    show(verdicts.to_dict() | {"unchecked": note}, as_json, verdicts.print)
    leave(interrupted=False, failed=not verdicts.agrees)


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder made by run, sweep or audit with --out.")
    ],
    png: Annotated[
        bool, typer.Option("--png", help="A PNG of every figure too, for slides.")
    ] = False,
    csv: Csv = None,
    plugin: Plugin = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the HTML page and figures of a run, a sweep or an audit into its folder."""
    from contextlib import nullcontext

    from metastable.report.page import with_png

    with with_png() if png else nullcontext():
        page, sweeping = _remake(folder)
    if csv is not None:
        _write_table(folder, csv, sweeping)
    note = None if sweeping else tell_unchecked(folder)
    if not as_json and (sentence := _sentence(folder)):
        print(sentence)
    print(json.dumps({"page": str(page), "unchecked": note}) if as_json else page)


def _sentence(folder: Path) -> str:
    """The answer that the manifest of a folder keeps; nothing while its work goes on."""
    from metastable.core.folder import MANIFEST

    kept = folder / MANIFEST
    return json.loads(kept.read_text("utf-8")).get("sentence", "") if kept.is_file() else ""


def _remake(folder: Path) -> tuple[Path, bool]:
    """The page of a folder, written again; and whether it is of a sweep."""
    sweeping = (folder / "data.zarr" / "done").is_dir()  # also while it runs, without a manifest
    if sweeping:
        from metastable.report.pages.sweep import report_sweep

        return report_sweep(folder), True
    if any(
        (folder / name).is_file()
        for name in ("items.csv", "sweep.json", "runs.json", "validation.json")
    ):
        from metastable.report.pages.audit import report_audit

        return report_audit(folder), False
    from metastable import kinds

    return kinds.remake_page(kinds.open(folder)), False


def _write_table(folder: Path, csv: Path, sweeping: bool) -> None:
    """The table of a result as CSV; of a sweep also while it runs."""
    if sweeping:
        from metastable.sweep.status import write_means

        write_means(folder, csv)
        return
    from metastable import kinds

    kinds.open(folder).to_csv(csv)


def tell_unchecked(folder: Path) -> str | None:
    """The sentence that a folder's files were not checked, also printed to stderr; else None."""
    from metastable.core.folder import unchecked

    note = unchecked(folder)
    if note:
        print(f"metastable: {note}", file=sys.stderr)
    return note


def doctor(
    clear_cache: Annotated[
        bool, typer.Option("--clear-cache", help="Remove the compiled code kept on disk, and end.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Versions, devices, the place of compiled code, and a self-check of the numerics."""
    if clear_cache:
        from metastable.core.compiled import clear

        removed = clear()
        show({"removed": removed}, as_json, lambda: print(f"{removed} entries removed"))
        return
    from metastable.cli.doctor import check_machine
    from metastable.report.text import print_doctor

    report = check_machine()
    show(report, as_json, lambda: print_doctor(report))
    leave(interrupted=False, failed=not report["healthy"])
