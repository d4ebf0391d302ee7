"""The command line: parses, calls, prints. It owns no mathematics.

One module per group of commands, listed here. Numerical modules are imported inside the commands,
so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from metastable import __version__
from metastable.cli import audit, explore, gaussian, inspect, learn, reproduce, runs, sweep

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


for command in (
    runs.run,
    runs.predict,
    runs.compare,
    runs.report,
    sweep.sweep,
    reproduce.reproduce,
    inspect.inspect,
    learn.learn,
    explore.explore,
    runs.doctor,
):
    app.command()(command)
app.add_typer(gaussian.app, name="gaussian")
app.add_typer(audit.app, name="audit")


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
            _refuse(str(error), getattr(error, "exit_code", 2))
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
