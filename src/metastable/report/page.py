"""One self-contained HTML page: tables, figures and listings under headings."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count, groupby
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from metastable import __version__
from metastable.comparison.citations import readable
from metastable.core.figure import Figure
from metastable.core.progress import Bar
from metastable.core.verdict import Verdict
from metastable.report.finder import Claims, Finder, Library, script_of
from metastable.report.narrow import narrow
from metastable.report.sources import Papers, address_of, cited_papers
from metastable.report.svg import inline_svg, save_figure, save_vector, stored_svg

LONGEST_LISTING = 50_000  # characters
VERDICTS = {"agree": "pass", "pass": "pass", "disagree": "fail", "fail": "fail"}
Rows = Sequence[Verdict | Mapping[str, Any]]


@dataclass(frozen=True)
class Noted:
    """A cell with a smaller line under it; each may link to a place like `#section-1`."""

    value: Any
    note: str
    link: str = ""
    note_link: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under named columns. Cells of a column named "verdict" are colored by their value.

    One with a caption is folded under it unless `open`.
    """

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    open: bool = False

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
    """Names and their values, side by side; folded under `title` where there is one."""

    kind: ClassVar[str] = "facts"
    pairs: Mapping[str, Any]
    title: str = ""


@dataclass(frozen=True)
class Area:
    """A part of a picture that leads to a card: its box in shares of the picture, from top left."""

    left: float
    top: float
    width: float
    height: float
    card: str
    title: str

    @property
    def style(self) -> str:
        box = {"left": self.left, "top": self.top, "width": self.width, "height": self.height}
        return ";".join(f"{side}:{100 * share:.2f}%" for side, share in box.items())


@dataclass(frozen=True)
class Picture:
    """A figure; its caption stands under it."""

    kind: ClassVar[str] = "picture"
    areas: ClassVar[tuple[Area, ...]] = ()
    figure: Figure

    @property
    def caption(self) -> str:
        return self.figure.caption


@dataclass(frozen=True)
class Cards:
    """Texts that stay hidden until a link to their name, `#NAME`, is followed: (title, text)."""

    kind: ClassVar[str] = "cards"
    cards: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Stored:
    """A figure drawn before, by `save_figure`, or a moving picture (GIF), with its caption.

    With its `figure` it can be drawn once more for narrow windows, where it opens a page.
    Only files this package has written itself belong here: the SVG goes into the page as it is.
    """

    file: Path
    caption: str
    areas: Sequence[Area] = ()
    figure: Figure | None = None

    @property
    def kind(self) -> str:
        return "movie" if self.file.suffix == ".gif" else "stored"

    @property
    def address(self) -> str:
        """All of a moving picture, so that it is kept inside the page."""
        return "data:image/gif;base64," + base64.b64encode(self.file.read_bytes()).decode()


@dataclass(frozen=True)
class Listing:
    """Text to keep as it is, such as a spec; folded unless `open`."""

    kind: ClassVar[str] = "listing"
    title: str
    text: str
    open: bool = False


@dataclass(frozen=True)
class Folded:
    """Blocks behind a line that opens them."""

    kind: ClassVar[str] = "folded"
    title: str
    blocks: Sequence[Any]


Block = (
    Table
    | Facts
    | Picture
    | Stored
    | Listing
    | Cards
    | Papers
    | Finder
    | Claims
    | Library
    | Folded
    | str
)
Blocks = Sequence[Block]


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in order; a string is a paragraph."""

    title: str
    blocks: Blocks


def rows_table(rows: Iterable[Mapping[str, Any]], caption: str = "") -> Table:
    """A table from rows that are mappings; columns in the order in which keys first appear.

    >>> rows_table([{"claim": "a", "verdict": "pass"}, {"claim": "b", "reason": "c"}]).columns
    ['claim', 'verdict', 'reason']
    """
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return Table(columns, [[row.get(key) for key in columns] for row in rows], caption)


def verdict_table(rows: Rows, about: str = "", clock: str = "") -> Table:
    """Verdicts first, reason and source as notes; the caption counts them and says the clock.

    Sources lead to the section `sources_of` the same rows, which the page must have too.
    """
    table = []
    for given in rows:
        row = dataclasses.asdict(given) if isinstance(given, Verdict) else dict(given)
        source = row.pop("source", None) or ""
        notes = row.pop("reason", None), readable(source)
        told = " · ".join(note for note in notes if note)
        claim = Noted(row.pop("claim", None), told, note_link=address_of(source))
        row["tolerance"] = row.get("tolerance") or None  # error and p are part of its words
        for left_out in ("error", "p"):
            row.pop(left_out, None)
        table.append({"verdict": row.pop("verdict"), "claim": claim} | row)
    counts = Counter(row["verdict"] for row in table)
    counted = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    caption = f"Verdicts{f' on {about}' if about else ''}: {counted}"
    return rows_table(table, caption + (f"; times and rates in the {clock} clock" if clock else ""))


def sources_of(rows: Rows) -> list[Section]:
    """The section about the papers that verdict rows cite; none where they cite none."""
    about = cited_papers(rows)
    return [Section("Sources", about)] if about else []


_png = ContextVar("png", default=False)


@contextmanager
def with_png() -> Iterator[None]:
    """Pages written inside also leave a PNG of every figure, for slides: twice the time."""
    token = _png.set(True)
    try:
        yield
    finally:
        _png.reset(token)


def save_figures(
    figures: Mapping[str, Figure], folder: Path, areas: Mapping[str, Sequence[Area]] | None = None
) -> dict[str, Stored]:
    """Draw figures into `folder` as SVG; return them by name, with their areas, for a page."""
    stored = {}
    save = (lambda *given: save_figure(*given)[0]) if _png.get() else save_vector
    with Bar("figures") as bar:
        for number, (name, figure) in enumerate(figures.items(), 1):
            stored[name] = Stored(
                save(figure, folder, name), figure.caption, (areas or {}).get(name, ()), figure
            )
            bar.update(number / len(figures))
    return stored


def page(
    path: str | Path, title: str, *, sentence: str = "", more: str = "", opening: str = "",
    verdicts: Rows = (),
    facts: Mapping[str, Any] | None = None, figures: Mapping[str, Figure] | None = None,
    sections: Sequence[Section] = (), provenance: Mapping[str, str] | None = None,
    areas: Mapping[str, Sequence[Area]] | None = None,
) -> Path:  # fmt: skip
    """Write the page of one result: the answer, verdicts, facts, figures, the rest, provenance.

    - `sentence` is the answer, `more` what else is to be said before any picture.
    - `opening` names the figure that stands beside the answer, before any table.
    - `figures`, by name, are drawn once, into `figures/` beside the page. A section shows one by
      `Picture(figure)`; those that no section shows stand in a section of their own, the first.
    - `areas`, by the name of a figure, lead from its parts to cards of a section.
    - `sections` are what only this kind of result has; empty ones are left out.
    - `provenance` are texts such as the spec and the manifest, by the name of their file.
    """
    path, figures = Path(path), figures or {}
    stored = save_figures(figures, path.parent / "figures", areas)
    drawn = {id(figure): stored[name] for name, figure in figures.items()}
    rest = dict(drawn)

    def placed(block: Block) -> Block:
        if isinstance(block, Folded):
            return Folded(block.title, [placed(one) for one in block.blocks])
        if not isinstance(block, Picture) or id(block.figure) not in drawn:
            return block
        rest.pop(id(block.figure), None)
        return drawn[id(block.figure)]

    own = [Section(each.title, [placed(b) for b in each.blocks]) for each in sections]
    texts = [listing(name, text) for name, text in (provenance or {}).items()]
    lead: list[Block] = [text for text in (sentence, more) if text]
    if opening in figures:
        lead.append(drawn[id(figures[opening])])
        rest.pop(id(figures[opening]), None)
    every = [Section("Figures", list(rest.values())), *own, *sources_of(verdicts)]
    every.append(Section("Provenance", texts))
    lead += [verdict_table(verdicts)] if verdicts else []
    lead += [Facts(facts, "Settings and facts")] if facts else []
    return write_page(path, title, *[each for each in every if each.blocks], lead=lead)


def listing(file: str, text: str) -> Listing:
    """A spec can hold every token, and a manifest repeats it: a page shows the beginning."""
    rest = len(text) - LONGEST_LISTING
    if rest > 0:
        text = f"{text[:LONGEST_LISTING]}\n… {rest} characters more in {file}"
    return Listing(file, text, open=file.endswith(".toml"))


def write_page(path: str | Path, title: str, *sections: Section, lead: Blocks = ()) -> Path:
    """Write one HTML file with everything inside: nothing is asked of a network.

    There is no script, but one of ours where the lead has a `Finder`.

    `lead` is the answer: a sentence in large letters, the picture beside it, then verdicts and
    facts, folded; above the sections and their list. All text is escaped. Colors follow
    the reader's theme. An existing file is replaced: a page is derived, and can be made again.
    """
    options: dict[str, Any] = {"undefined": StrictUndefined, "autoescape": True}
    loader = PackageLoader("metastable.report")
    environment = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, **options)
    numbers = count(1)
    svg = lambda block: _svg(block, f"f{next(numbers)}")
    opening = next((block for block in lead if isinstance(block, Picture | Stored)), None)
    small = lambda block: _narrow(block, f"f{next(numbers)}") if block is opening else None
    filters = {"shown": show, "svg": svg, "narrow": small, "runs_of": _neighbors}
    environment.filters |= filters
    environment.tests["text"] = lambda block: isinstance(block, str)
    page = environment.get_template("page.html")
    script, allowed = script_of(lead)
    given = {"script": script, "allowed": allowed, "styles": VERDICTS, "version": __version__}
    rendered = page.render(title=title, lead=lead, sections=sections, **given)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(rendered, encoding="utf-8")
    part.replace(path)
    return path


def _svg(block: Picture | Stored, name: str) -> tuple[Markup, str]:
    """A drawn figure, and a style that tells its shape.

    The only text that is not escaped: matplotlib's own, with its label escaped by inline_svg.
    """
    stored = isinstance(block, Stored)
    text = stored_svg(block.file, name) if stored else inline_svg(block.figure, name)
    return _shaped(text)


def _narrow(block: Picture | Stored, name: str) -> tuple[Markup, str] | None:
    """The picture that opens a page as a narrow window shows it, where that is another."""
    figure = narrow(block.figure) if block.figure is not None else None
    return None if figure is None else _shaped(inline_svg(figure, name))


def _shaped(text: str) -> tuple[Markup, str]:
    # What stands beside the answer is as large as the window allows.
    shape = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    width, height = (float(shape[1]), float(shape[2])) if shape else (1.0, 1.0)
    return Markup(text), f"--ratio: {width / height:.3f}; --own: {width:.0f}pt"


def _neighbors(blocks: Blocks) -> Iterable[tuple[str, list[Block]]]:
    """Blocks in order, those of one kind that follow each other together: pictures share rows."""
    drawn = lambda block: isinstance(block, Picture | Stored)
    kind = lambda block: "picture" if drawn(block) else getattr(block, "kind", "text")
    return [(kind, list(items)) for kind, items in groupby(blocks, key=kind)]


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
        return ", ".join(f"{name}: {show(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join([*map(show, value[:8]), *["…"] * (len(value) > 8)])
    return str(value)
