"""Rewrite the tables of ARCHITECTURE.md from the first lines of the modules.

python docs/architecture.py
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, FILE = ROOT / "src" / "metastable", ROOT / "ARCHITECTURE.md"
BEGIN, END = "## File by file\n", "## Choices that could have gone another way\n"


def tables() -> str:
    """One table for each folder of the package, in the order of their names."""
    parts = []
    for folder in sorted(path.parent for path in SOURCE.rglob("__init__.py")):
        rows = [f"| `{file.name}` | {_first_line(file)} |" for file in sorted(folder.glob("*.py"))]
        rows = [row for row in rows if not row.startswith("| `__")]
        if rows:
            name = "" if folder == SOURCE else f"{folder.relative_to(SOURCE).as_posix()}/"
            head = [f"`{name or 'metastable/'}`", "", "| file | what it holds |", "|---|---|"]
            parts.append("\n".join(head + rows))
    return "\n\n".join(parts) + "\n"


def _first_line(file: Path) -> str:
    told = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return told.split("\n")[0].rstrip(".").replace("|", "\\|")


def rewritten(text: str) -> str:
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    FILE.write_text(rewritten(FILE.read_text(encoding="utf-8")), encoding="utf-8")
