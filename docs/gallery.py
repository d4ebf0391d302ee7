"""Write docs/reproductions/ from a finished reproduction: pages of text and small pictures.

python docs/gallery.py reproduced
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from PIL import Image

from metastable import kinds
from metastable.report.page import show
from metastable.reproduce.catalogue import catalogue, sources
from metastable.reproduce.perform import record_of

PAGES = Path(__file__).parent / "reproductions"
WIDTH = 760  # pixels of a picture: twice the size at which it is shown


def main(folder: Path) -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir()
    entries, listed = catalogue(), []
    for source, title in sources().items():
        names = [name for name, entry in entries.items() if entry.source == source]
        records = [_record(folder, name) for name in names]
        listed.append((source, title, records))
        parts = [f"# {title}", *(_section(folder, one) for one in records)]
        (PAGES / f"{source}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    (PAGES / "index.md").write_text(_index(listed), encoding="utf-8")


def _record(folder: Path, name: str) -> dict:
    return record_of(kinds.open(folder / name))


def _index(listed: list) -> str:
    every = [one for _, _, records in listed for one in records]
    count = lambda verdict: sum(one["verdict"] == verdict for one in every)
    lines = [
        "# What was published, made again",
        "",
        f"{len(every)} figures, tables, theorems and questions of five sources, each run here "
        f"and judged: {count('agree')} agree, {count('disagree')} disagree, "
        f"{count('not applicable')} cannot be told. Where a source is known to be wrong the "
        "entry shows what it says and what is true. Made with `metastable reproduce all --fast`; "
        "without `--fast` the sizes are those of the sources.",
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(source for source, _, _ in listed),
        "```",
    ]
    for source, title, records in listed:
        lines += ["", f"## [{title}]({source}.md)", "", "| entry | verdict |", "|---|---|"]
        lines += [
            f"| {_cell(one['title'])} ({', '.join(one['places'])}) | {one['verdict']} |"
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
    rows = ["| claim | expected | observed | verdict |", "|---|---|---|---|"]
    rows += [
        f"| {_cell(row['claim'])} | {_cell(row['expected'])} | {_cell(row['observed'])} "
        f"| {row['verdict']} |"
        for row in one["rows"]
    ]
    parts.append("\n".join(rows))
    drawn = folder / one["name"] / "figures"
    captions = json.loads((drawn / "captions.json").read_text("utf-8")) if drawn.is_dir() else {}
    for name, caption in captions.items():
        if name.endswith(".svg"):
            picture = _picture((drawn / name).with_suffix(".png"))
            parts.append(f"![{_cell(caption)}]({picture}){{width=420px}}")
    parts += one["notes"]
    parts.append(f"`metastable reproduce {one['name']}`")
    return "\n\n".join(parts)


def _picture(file: Path) -> str:
    """A small copy with few colours: figures are flat, and the pages must stay light."""
    image = Image.open(file).convert("RGB")
    image.thumbnail((WIDTH, 10 * WIDTH))
    image.quantize(64).save(PAGES / file.name, optimize=True)
    return file.name


def _cell(value: object) -> str:
    return (
        show(value).replace("|", "\\|").replace("\n", " ").replace("*", "\\*").replace("_", "\\_")
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
