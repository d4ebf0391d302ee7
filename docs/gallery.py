"""Pages of pictures: what was published made again, and the examples.

python docs/gallery.py reproductions DIR   # docs/reproductions/ from a finished `reproduce all`
python docs/gallery.py map DIR             # map.md alone, from as much as is finished there
python docs/gallery.py planted DIR         # planted.md, from a finished `reproduce --check all`
python docs/gallery.py examples DIR        # pictures in docs/examples/ from what the scripts left

The scripts write to DIR/NAME when run as `python examples/NAME.py DIR/NAME`. The pages of the
examples are made from the scripts by the documentation's build (`write_examples`).
"""

from __future__ import annotations

import ast
import json
import math
import shutil
import sys
from pathlib import Path

from atlas_pages import PLANTED, cell, write_map_page, write_planted
from PIL import Image

from metastable import kinds
from metastable.reproduce.catalogue import catalogue, page_of, sources
from metastable.reproduce.perform import record_of

DOCS = Path(__file__).parent
PAGES, EXAMPLES = DOCS / "reproductions", DOCS / "examples"
SCRIPTS = DOCS.parent / "examples"
WIDTH = 760  # pixels of a picture: twice the size at which it is shown


def write_reproductions(folder: Path) -> None:
    checked = PLANTED.read_text("utf-8") if PLANTED.is_file() else ""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir()
    PLANTED.write_text(checked or "# Planted errors\n", encoding="utf-8")
    write_map_page(folder)
    if list(folder.glob("checks/*.json")):
        write_planted(folder)
    entries, listed = catalogue(), []
    for source, title in sources().items():
        names = [name for name, entry in entries.items() if entry.source == source]
        records = [_record(folder, name) for name in names]
        listed.append((source, title, records))
        text = page_of(source).replace("*", "\\*")
        parts = [f"# {title}", text, *(_section(folder, one) for one in records)]
        (PAGES / f"{source}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    (PAGES / "index.md").write_text(_index(listed), encoding="utf-8")


def keep_pictures(folder: Path) -> None:
    """Small copies of the PNG files below `folder`, one subfolder a script, in docs/examples/."""
    EXAMPLES.mkdir(exist_ok=True)
    for old in EXAMPLES.glob("*.png"):
        old.unlink()
    for file in sorted(folder.glob("[0-9][0-9]_*/*.png")):
        _picture(file, EXAMPLES)


def write_examples() -> None:
    """A page for each script, with its pictures and its code, and a page of all of them."""
    listed = []
    for script in sorted(SCRIPTS.glob("[0-9][0-9]_*.py")):
        tree = ast.parse(script.read_text(encoding="utf-8"))
        title, _, text = (ast.get_docstring(tree) or "").partition("\n")
        title, code = title.rstrip("."), tree.body[1].lineno
        pictures = sorted(path.name for path in EXAMPLES.glob(f"{script.stem}*.png"))
        shown = [f"![{title}, {_subject(name, script.stem)}]({name})" for name in pictures]
        include = f"```{{literalinclude}} ../../examples/{script.name}\n:lines: {code}-\n```"
        parts = [f"# {title}", text.strip().replace("*", "\\*"), *shown, include]
        write_changed(EXAMPLES / f"{script.stem}.md", "\n\n".join(parts) + "\n")
        listed.append((title, script.stem, min(pictures, key=_narrowness, default=None)))
    cards = [
        (f"[![{title}]({picture})]({name}.md) " if picture else "") + f"[{title}]({name}.md)"
        for title, name, picture in listed
    ]
    lead = (
        "Each is one question, under a hundred lines, run by the tests. "
        "`python examples/01_first_clusters.py OUT` writes its figures to OUT."
    )
    names = "\n".join(name for _, name, _ in listed)
    toctree = f"```{{toctree}}\n:hidden:\n\n{names}\n```"
    grid = ["::::{container} gallery", *(f":::{{container}} card\n{c}\n:::" for c in cards), "::::"]
    parts = ["# Examples", lead, "\n".join(grid), toctree]
    write_changed(EXAMPLES / "index.md", "\n\n".join(parts) + "\n")


def write_changed(file: Path, text: str) -> None:
    """Write a file unless it holds this text: what is not changed need not be built again."""
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _narrowness(picture: str) -> float:
    """How far a picture is from the shape of a card, three by two: strips are hard to see small."""
    width, height = Image.open(EXAMPLES / picture).size
    return abs(math.log(width / height / 1.5))


def _subject(picture: str, script: str) -> str:
    return (
        picture.removesuffix(".png").removeprefix(script).strip("_").replace("_", " ") or "figure"
    )


def _record(folder: Path, name: str) -> dict:
    return record_of(kinds.open(folder / name))


def _index(listed: list) -> str:
    every = [one for _, _, records in listed for one in records]
    count = lambda verdict: sum(one["verdict"] == verdict for one in every)
    lines = [
        "# What was published, made again",
        "",
        f"{len(every)} figures, tables, theorems and questions of {len(listed)} sources, each run "
        f"here and judged: {count('agree')} agree, {count('disagree')} disagree, "
        f"{count('not applicable')} cannot be told. Where a source is known to be wrong the "
        "entry shows what it says and what is true. Made with `metastable reproduce all --fast`; "
        "without `--fast` the sizes are those of the sources. [By subject, with what contradicts "
        "what](map.md); [which planted error each entry notices](planted.md).",
        "",
        "```{toctree}",
        ":hidden:",
        "",
        "map",
        "planted",
        *(source for source, _, _ in listed),
        "```",
    ]
    for source, title, records in listed:
        lines += ["", f"## [{title}]({source}.md)", "", "| entry | verdict |", "|---|---|"]
        lines += [
            f"| {cell(one['title'])} ({', '.join(one['places'])}) | {one['verdict']} |"
            for one in records
        ]
    return "\n".join(lines) + "\n"


def _section(folder: Path, one: dict) -> str:
    parts = [
        f"## {one['title']}",
        f"*{', '.join(one['places'])}.* {one['claim']}",
        f"*Here:* {one['method']}",
    ]
    if one["correction"]:
        parts.append(f"*Corrected:* {one['correction']}")
    if one["limits"]:
        parts.append(f"*Not tested:* {one['limits']}")
    rows = ["| claim | expected | observed | verdict |", "|---|---|---|---|"]
    rows += [
        f"| {cell(row['claim'])} | {cell(row['expected'])} | {cell(row['observed'])} "
        f"| {row['verdict']} |"
        for row in one["rows"]
    ]
    parts.append("\n".join(rows))
    drawn = folder / one["name"] / "figures"
    captions = json.loads((drawn / "captions.json").read_text("utf-8")) if drawn.is_dir() else {}
    for name, caption in captions.items():
        if name.endswith(".svg"):
            picture = _picture((drawn / name).with_suffix(".png"), PAGES)
            parts.append(f"![{cell(caption)}]({picture}){{width=420px}}")
    parts += one["notes"]
    parts.append(f"`metastable reproduce {one['name']}`")
    return "\n\n".join(parts)


def _picture(file: Path, folder: Path) -> str:
    """A small copy with few colours: figures are flat, and the pages must stay light."""
    image = Image.open(file).convert("RGB")
    image.thumbnail((WIDTH, 10 * WIDTH))
    image.quantize(64).save(folder / file.name, optimize=True)
    return file.name


if __name__ == "__main__":
    {
        "reproductions": write_reproductions,
        "map": write_map_page,
        "planted": write_planted,
        "examples": keep_pictures,
    }[sys.argv[1]](Path(sys.argv[2]))
