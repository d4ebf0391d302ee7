"""Every message with which Metastable refuses something, collected from its source.

The documentation's build writes them to a page; `python docs/messages.py` prints it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "metastable"
ERRORS = {"ValueError", "OSError", "DiskFull", "TypeError", "RuntimeError", "ModuleNotFoundError"}


class Message(NamedTuple):
    """`pattern`: the words, with `{…}` for each value that is filled in; `module`: where it is."""

    pattern: str
    module: str


def collect() -> list[Message]:
    """All messages of exceptions raised in the package that are written out where they are raised.

    One that begins with a filled-in name of an argument is of a check that many functions share.
    """
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for pattern in _raised(ast.parse(file.read_text(encoding="utf-8"))):
            found.setdefault(pattern, Message(pattern, module))
    return list(found.values())


def matches(pattern: str, text: str) -> bool:
    """Whether `text` is the message of `pattern` with values filled in.

    >>> matches("beta must be {…}; got {…}.", "beta must be >= 0; got -1.")
    True
    """
    parts = map(re.escape, pattern.split("{…}"))
    return re.fullmatch(".*?".join(parts), text, re.DOTALL) is not None


def page() -> str:
    messages = collect()
    lines = [
        "# Every message",
        "",
        f"The {len(messages)} sentences with which something is refused, taken from the source by "
        "the build of this page; … stands for what is filled in. Search it for the words you met. "
        "Each says the argument, what it must be, what was received, and a remedy; "
        "[when something goes wrong](errors.md) says what to do about the common ones.",
    ]
    package = ""
    for message in sorted(messages, key=lambda one: (one.module.split(".")[0], one.pattern)):
        head, _, rest = message.module.partition(".")
        if head != package:
            package = head
            lines += ["", f"## {package}", ""]
        where = f" *({rest})*" if rest else ""
        lines.append(f"- `` {message.pattern.replace('{…}', '…')} ``{where}")
    return "\n".join(lines) + "\n"


def _raised(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        # What a folder must hold is told where it is opened.
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open_folder":
            yield from (re.sub(r"\s+", " ", _words(told)) + "{…}" for told in node.args[1:2])
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
            continue
        name = node.exc.func
        if isinstance(name, ast.Name) and name.id in ERRORS and node.exc.args:
            words = _words(node.exc.args[-1])
            if len(words.replace("{…}", "").split()) > 2:
                yield re.sub(r"\s+", " ", words).strip()


def _words(node: ast.expr) -> str:
    """The text of an expression, `{…}` in place of whatever is known at run time only."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_words, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _words(node.left) + _words(node.right)
    return "{…}"


if __name__ == "__main__":
    print(page(), end="")
