"""The command line: parses, calls, prints. It owns no mathematics.

One module per group of commands, listed here. Numerical modules are imported inside the commands,
so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from metastable import __version__
from metastable.cli import audit, explore, failures, gaussian, inspect, reproduce, runs, sweep

__all__ = ["main"]

app = typer.Typer(
    name="metastable",
    help="A laboratory for transformers seen as interacting particles.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    cls=failures.Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and the commit of a clone.")
    ] = False,
) -> None:
    if version:
        from metastable.core.provenance import source_commit

        commit = source_commit()
        print(__version__ if commit is None else f"{__version__} (commit {commit[:12]})")
        raise typer.Exit()


for command in (
    *(runs.run, runs.predict, runs.compare, runs.report, sweep.sweep, reproduce.reproduce),
    *(inspect.inspect, runs.learn, explore.explore, runs.doctor),
):
    app.command()(command)
app.add_typer(gaussian.app, name="gaussian")
app.add_typer(audit.app, name="audit")


def main() -> None:
    """Run the command line: 0 done, 1 failed, 2 bad input, 130 interrupted.

    Whatever escapes a command becomes one line on stderr; with --debug it is raised.
    """
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    arguments = sys.argv[1:]
    try:
        failures.refuse_unwritable(arguments)
        with failures.warnings_on_one_line(arguments):
            code = app(standalone_mode=False)
    except SystemExit:
        raise
    except BaseException as error:
        cause = (error.__cause__ or error) if isinstance(error, failures.Escaped) else error
        line, code = failures.describe_error(cause, arguments)
        if "--debug" in arguments and code != 130:
            raise cause from cause.__cause__
        print(line, file=sys.stderr)
    sys.exit(code or 0)
