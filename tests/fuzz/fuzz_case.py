"""What a case is: a command line, the files it meets, and what is asked of it."""

from __future__ import annotations

import base64
import shlex
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.fuzz_bases import recipe

__all__ = ["Case", "mentioned", "reproducer"]

LONGEST = 6000  # characters of a file that a reproducer spells out


@dataclass(frozen=True)
class Case:
    """One command, run in a fresh folder.

    - `files`: what the folder holds: path to bytes; None makes a folder.
    - `links`: symbolic links, path to target.
    - `uses`: things that are made once and linked in: path to a name of `fuzz_bases.MADE`.
    - `damage`: what is done to a copy of a finished result: (base, action, how, which, where), the
      last two as shares of all files and of the file's bytes.
    - `out`: where the command may write, None for nowhere.
    - `long`: the work asked for is huge, and Ctrl-C must end it.
    """

    kind: str
    name: str
    argv: tuple[str, ...]
    files: dict[str, bytes | None] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    uses: dict[str, str] = field(default_factory=dict)
    damage: tuple[Any, ...] = ()
    out: str | None = None
    long: bool = False
    number: int = -1
    seed: int = 0
    cheap: bool = False

    @property
    def as_json(self) -> bool:
        """Whether stdout must be JSON: `--json` stands right behind the command's name."""
        asked = "--json" in self.argv[:3]
        return asked and not {"-h", "--help", "--version", "--list"} & set(self.argv)

    @property
    def debug(self) -> bool:
        return "--debug" in self.argv


def mentioned(files: dict[str, bytes | None], argv: tuple[str, ...]) -> dict[str, bytes | None]:
    """The files whose first part stands in a command; the others only make reproducers long."""
    return {k: v for k, v in files.items() if any(k.split("/")[0] in word for word in argv)}


def reproducer(case: Case, note: str = "") -> str:
    """Shell lines that make the folder of a case and run its command; `note` is its damage."""
    lines = [
        f"# {case.kind}: {case.name}",
        f"# or: python tests/fuzz/fuzz.py --seed {case.seed} --case {case.number}"
        + " --cheap" * case.cheap,
    ]
    for path, used in case.uses.items():
        lines.append(f"# {path}: {used}, made by tests/fuzz/fuzz_bases.py")
    if case.damage:
        lines += recipe(case.damage[0])
    for path, content in case.files.items():
        lines.append(_file(path, content))
    lines += [f"ln -s {shlex.quote(to)} {shlex.quote(path)}" for path, to in case.links.items()]
    if note:
        lines.append(note)
    lines.append(shlex.join(["metastable", *case.argv]))
    return "\n".join(line if len(line) < LONGEST else line[:LONGEST] + " [...]" for line in lines)


def _file(path: str, content: bytes | None) -> str:
    name = shlex.quote(path)
    if content is None:
        return f"mkdir -p {name}"
    folder = path.rpartition("/")[0]
    before = f"mkdir -p {shlex.quote(folder)}; " if folder else ""
    try:
        text = content.decode()
        plain = text.endswith("\n") and "\r" not in text and "\0" not in text
    except UnicodeDecodeError:
        text, plain = "", False
    if plain and "\nEND\n" not in text:
        return f"{before}cat > {name} <<'END'\n{text}END"
    return f"{before}base64 -d > {name} <<< {base64.b64encode(content).decode()}"
