"""The command line: parses, calls, prints. It owns no mathematics.

Numerical modules are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable import __version__

__all__ = ["main"]

app = typer.Typer(
    name="metastable",
    help="A laboratory for transformers seen as interacting particles.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit()


Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, all else on stderr.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def main() -> None:
    """Run the command line: 0 done, 1 failed, 2 bad input (one line), 130 interrupted."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        _refuse("interrupted", 130)
    except typer.Abort:
        _refuse("interrupted", 130)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        if isinstance(error, ValueError | OSError):
            _refuse(str(error), 2)
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        _refuse(format_message() + _received(format_message()), 2)
    else:
        sys.exit(code or 0)


def _received(message: str) -> str:
    """The value that stood behind the option a parser complains about."""
    for option, value in zip(sys.argv, sys.argv[1:], strict=False):
        if option.startswith("--") and f"'{option}'" in message:
            return f"; got {value!r}."
    return ""


def _refuse(message: str, code: int) -> None:
    message = message.split("\n---")[0]  # JAX appends a note on its own frames
    print("metastable: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


@app.command()
def run(
    spec: Annotated[
        str | None, typer.Argument(metavar="[SPEC.toml]", help="What to run; see docs/spec.md.")
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Dimension d; tokens on S^{d-1}. [2]")] = None,
    tokens: Annotated[int | None, typer.Option(help="Number of tokens. [1000]")] = None,
    beta: Annotated[float | None, typer.Option(help="Inverse temperature, >= 0. [1]")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the start and of the noise.")] = None,
    horizon: Annotated[
        float | None, typer.Option(help="Final time, in the field's clock. [20]")
    ] = None,
    unnormalized: Annotated[
        bool, typer.Option("--unnormalized", help="USA instead of SA.")
    ] = False,
    noise: Annotated[
        float | None, typer.Option(help="Add noise of inverse strength KAPPA.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any key: flow.frames=401, field.value=-1."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New folder for the result.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run one flow; print its summary, and keep it in a folder with --out.

    Without SPEC: uniform tokens under self-attention, from the options. The same command run again
    on a folder whose run was cut short goes on where it stopped.
    """
    from metastable.results import run_and_keep
    from metastable.spec import load_experiment

    overrides: dict[str, Any] = {
        "measure.dim": dim,
        "measure.tokens": tokens,
        "measure.seed": seed,
        "field.beta": beta,
        "flow.horizon": horizon,
        "flow.seed": seed,
        "field.normalized": False if unnormalized else None,
    }
    overrides = {key: value for key, value in overrides.items() if value is not None}
    overrides |= dict(_setting(text) for text in set_ or [])
    experiment = load_experiment(spec, overrides, noise)
    result, summary = run_and_keep(experiment, out)
    if as_json:
        print(json.dumps(summary))
    else:
        from metastable.report.text import print_run

        print_run(result, summary)
    if result.outcome.name == "interrupted":
        raise typer.Exit(130)
    if result.outcome.name != "done":
        raise typer.Exit(1)


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"--set must be KEY=VALUE, such as field.beta=9; got {text!r}.")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value  # a bare word is a string


@app.command()
def predict(
    dim: Annotated[int, typer.Option(help="Dimension d of the space; tokens on S^{d-1}.")],
    beta: Annotated[float, typer.Option(help="Inverse temperature, >= 0.")],
    tokens: Annotated[int | None, typer.Option(help="Number of uniform tokens.")] = None,
    unnormalized: Annotated[
        bool, typer.Option("--unnormalized", help="USA instead of SA.")
    ] = False,
    noise: Annotated[float | None, typer.Option(help="Noise of inverse strength KAPPA.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """What theory says: growth rates, exit time, first clusters, noise threshold, theorems."""
    from metastable import Noise, SelfAttention
    from metastable.comparison import predict as ask

    field: Any = SelfAttention(beta, normalized=not unnormalized)
    if noise is not None:
        field = field + Noise(noise)
    prediction = ask(field, dim, tokens)
    if as_json:
        print(json.dumps(prediction.to_dict()))
    else:
        prediction.print()


@app.command()
def compare(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder made by run --out.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Verdict rows of a finished run; exit code 1 when something disagrees."""
    from metastable.comparison import compare as judge
    from metastable.results import load_run

    comparison = judge(load_run(folder)[1])
    if as_json:
        print(json.dumps(comparison.to_dict()))
    else:
        comparison.print()
    if not comparison.agrees:
        raise typer.Exit(1)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder made by run --out.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the HTML page and figures of a finished run into its folder."""
    from metastable.report.judged import report_folders

    page = report_folders([folder], folder / "report.html")
    print(json.dumps({"page": str(page)}) if as_json else page)


@app.command()
def doctor(as_json: Json = False, debug: Debug = False) -> None:
    """Versions, devices, and a self-check of the numerics."""
    from metastable.doctor import examine

    report = examine()
    if as_json:
        print(json.dumps(report))
    else:
        from metastable.report.text import print_doctor

        print_doctor(report)
    if not report["healthy"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    main()
