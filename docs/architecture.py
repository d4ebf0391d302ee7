"""Rewrite the diagram of imports in ARCHITECTURE.md from the modules themselves.

python docs/architecture.py
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, FILE = ROOT / "src" / "metastable", ROOT / "ARCHITECTURE.md"
BEGIN, END = "## Who imports whom\n", "## Choices that could have gone another way\n"


def diagram() -> str:
    """A line for each package, in the order of the path: what its modules import or name."""
    edges: dict[str, set[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        part = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if not part.startswith("__") and file.name not in ("show.py", "__main__.py"):
            edges.setdefault(part, set()).update(_imported(file) - {part})
    order: list[str] = []
    while len(order) < len(edges):  # each after all that it imports
        order.append(min(p for p in edges if p not in order and edges[p] <= set(order)))
    width = max(map(len, order))
    lines = [f"{p:<{width}}  ← {' '.join(q for q in order if q in edges[p])}" for p in order]
    return "\n".join(["```", *(line.removesuffix("  ← ") for line in lines), "```"]) + "\n"


def _imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("metastable."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "metastable":
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and str(node.value).startswith("metastable."):
            found.add(str(node.value).split(".")[1])
    named = {name for name in found if name and not name.startswith("__")}
    return {n for n in named if (SOURCE / n).is_dir() or (SOURCE / f"{n}.py").is_file()}


def rewritten(text: str) -> str:
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"


if __name__ == "__main__":
    FILE.write_text(rewritten(FILE.read_text(encoding="utf-8")), encoding="utf-8")
