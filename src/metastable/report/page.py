"""One self-contained HTML page: tables, figures and listings under headings."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from metastable import __version__
from metastable.core.figure import Figure
from metastable.report.svg import inline_svg

__all__ = [
    "Block",
    "Facts",
    "Listing",
    "Movie",
    "Noted",
    "Picture",
    "Section",
    "Stored",
    "Table",
    "rows_table",
    "write_page",
]

VERDICTS = {"agree": "pass", "pass": "pass", "disagree": "fail", "fail": "fail"}


@dataclass(frozen=True)
class Noted:
    """A cell with a smaller line under it; with `link`, its value leads to that place of the page.

    Sections are places `#section-1`, `#section-2`, … in order.
    """

    value: Any
    note: str
    link: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under named columns. Cells of a column named "verdict" are coloured by their value."""

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers only, and are set flush right."""
        cells = [[row[k] for row in self.rows] for k in range(len(self.columns))]
        filled = [[cell for cell in column if cell is not None] for column in cells]
        return [bool(column) and all(isinstance(c, Real) for c in column) for column in filled]

    def style(self, column: int, cell: Any) -> str:
        if self.columns[column] == "verdict":
            return VERDICTS.get(show(cell), "open")
        return "number" if self.numeric[column] else "short" if isinstance(cell, Real) else "words"


@dataclass(frozen=True)
class Facts:
    """Names and their values, side by side."""

    kind: ClassVar[str] = "facts"
    pairs: Mapping[str, Any]


@dataclass(frozen=True)
class Picture:
    """A figure; its caption stands under it."""

    kind: ClassVar[str] = "picture"
    figure: Figure

    @property
    def caption(self) -> str:
        return self.figure.caption


@dataclass(frozen=True)
class Stored:
    """A figure drawn before: the file `save_figure` wrote, with its caption.

    Only files this package has written itself belong here: the SVG goes into the page as it is.
    """

    kind: ClassVar[str] = "stored"
    file: Path
    caption: str

    @property
    def svg(self) -> Markup:
        # The style element makes the file follow the reader's theme; the page sees to that itself.
        text = self.file.read_text(encoding="utf-8")
        return Markup(re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))


@dataclass(frozen=True)
class Movie:
    """A moving picture (GIF), kept inside the page."""

    kind: ClassVar[str] = "movie"
    file: Path
    caption: str

    @property
    def address(self) -> str:
        return "data:image/gif;base64," + base64.b64encode(self.file.read_bytes()).decode()


@dataclass(frozen=True)
class Listing:
    """Text to keep as it is, such as a spec; folded unless `open`."""

    kind: ClassVar[str] = "listing"
    title: str
    text: str
    open: bool = False


Block = Table | Facts | Picture | Stored | Movie | Listing | str


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in order; a string is a paragraph."""

    title: str
    blocks: Sequence[Block]


def rows_table(rows: Iterable[Mapping[str, Any]], caption: str = "") -> Table:
    """A table from rows that are mappings; columns in the order in which keys first appear.

    >>> rows_table([{"claim": "a", "verdict": "pass"}, {"claim": "b", "reason": "c"}]).columns
    ['claim', 'verdict', 'reason']
    """
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return Table(columns, [[row.get(key) for key in columns] for row in rows], caption)


def write_page(
    path: str | Path, title: str, *sections: Section, lead: Sequence[Block] = ()
) -> Path:
    """Write one HTML file with everything inside: no script, and nothing is asked of a network.

    `lead` stands above the sections (verdicts belong there). All text is escaped. Colours follow
    the reader's theme. An existing file is replaced: a page is derived, and can be made again.
    """
    page = _environment().get_template("page.html")
    rendered = page.render(title=title, lead=lead, sections=sections, version=__version__)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(rendered, encoding="utf-8")
    part.replace(path)
    return path


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("metastable.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = show
    # The only text that is not escaped: matplotlib's own, with its label escaped by inline_svg.
    numbers = count(1)
    environment.filters["svg"] = lambda figure: Markup(inline_svg(figure, f"f{next(numbers)}"))
    environment.filters["runs_of"] = _neighbours
    environment.tests["text"] = lambda block: isinstance(block, str)
    return environment


def _neighbours(blocks: Sequence[Block]) -> Iterable[tuple[str, list[Block]]]:
    """Blocks in order, those of one kind that follow each other together: pictures share rows."""
    pictures = ("picture", "stored", "movie")
    kind = lambda block: getattr(block, "kind", "text")
    groups = groupby(
        blocks, key=lambda block: "picture" if kind(block) in pictures else kind(block)
    )
    return [(kind, list(items)) for kind, items in groups]


def show(value: Any) -> str:
    """A cell: six digits, yes or no, a dash for nothing, the first few of many."""
    if isinstance(value, Noted):
        return show(value.value)
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {show(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join([*(show(one) for one in value[:8]), *["…"] * (len(value) > 8)])
    return str(value)
