"""The manual page metastable.1, from the program's own help.

python docs/manpage.py > docs/man/metastable.1
"""

from __future__ import annotations

import typer.main

from metastable import __version__
from metastable.cli import app


def escape(text: str) -> str:
    """Text as roff takes it."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def describe(command: object, path: str) -> list[str]:
    """A section of a command: what it does, its arguments and options; then those below it."""
    lines = [f'.SS "{escape(path)}"', escape(command.help or "")]  # type: ignore[attr-defined]
    for parameter in command.params:  # type: ignore[attr-defined]
        if getattr(parameter, "hidden", False):
            continue
        name = ", ".join(parameter.opts)
        if parameter.param_type_name == "argument":
            name = (parameter.metavar or parameter.name).strip("{}")
        lines += [".TP", f".B {escape(name)}", escape(getattr(parameter, "help", "") or "")]
    for name, below in getattr(command, "commands", {}).items():
        lines += describe(below, f"{path} {name}")
    return lines


def page() -> str:
    program = typer.main.get_command(app)
    lines = [
        f'.TH METASTABLE 1 "" "metastable {__version__}" "User commands"',
        ".SH NAME",
        "metastable \\- a laboratory for transformers seen as interacting particles",
        ".SH SYNOPSIS",
        ".B metastable",
        ".I command",
        "[options]",
        ".SH EXIT STATUS",
        "0 done; 1 failed, or a verdict disagrees; 2 bad input; 130 interrupted, all that was "
        "finished is kept.",
        ".SH COMMANDS",
    ]
    for name, command in program.commands.items():  # type: ignore[attr-defined]
        lines += describe(command, f"metastable {name}")
    return "\n".join(line for line in lines if line) + "\n"


if __name__ == "__main__":
    print(page(), end="")
