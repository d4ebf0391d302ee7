"""A drawn figure: matplotlib's, in the style it was drawn in, and shown by notebooks."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

DPI = 200  # of a PNG, and of the rasterised parts of an SVG
FINE = 450  # of the rasterised parts of a PDF, which is printed
INCH = 100  # pixels of an inch on a screen
# Text stays text in a PDF: letters as TrueType, which journals ask for.
PRINT: Any = {"pdf.fonttype": 42, "ps.fonttype": 42}
LETTER = 0.54  # mean width of a letter, in its height


class Measured(Axes):
    """Axes whose labels are measured once for a layout, not at each of its four passes.

    What stands around axes keeps its size while they are moved: its extent beyond them is kept.
    """

    around: np.ndarray | None = None  # pixels beyond the axes: left, bottom, right, top

    def get_tightbbox(self, *given: Any, for_layout_only: bool = False, **rest: Any) -> Any:
        if not for_layout_only:
            return super().get_tightbbox(*given, **rest)
        if self.around is None:
            box = super().get_tightbbox(*given, for_layout_only=True, **rest)
            if box is None:
                return None
            self.around = np.asarray(box.extents) - self.bbox.extents
        return Bbox.from_extents(*(self.bbox.extents + self.around))


class Picture(Figure):
    """A matplotlib figure that keeps the fonts of its style until it is written.

    As the last line of a cell it is shown, whatever matplotlib's backend is.
    """

    settings: Any = None

    def draw(self, renderer: Any) -> None:
        """Ticks are made only here, and take the fonts that are set at that moment."""
        with rc_context(self.settings or {}):
            self._measure_anew()
            engine = self.get_layout_engine()
            if engine is not None and any(ax.axison and ax.get_aspect() == 1 for ax in self.axes):
                engine.execute(self)  # boxes that keep their shape fit the second time only
                self._measure_anew()
            super().draw(renderer)

    def _measure_anew(self) -> None:
        for ax in self.axes:
            if isinstance(ax, Measured):
                ax.around = None

    def savefig(self, fname: Any, *, transparent: Any = None, **rest: Any) -> None:
        """As matplotlib's; the letters of a PDF stay letters."""
        with rc_context({**PRINT, **(self.settings or {})}):
            super().savefig(fname, transparent=transparent, **rest)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return to_png(self), screen_size(self)


def screen_size(picture: Figure) -> dict[str, int]:
    """Width and height on a screen, in pixels: a PNG has more of them."""
    width, height = picture.get_size_inches()
    return {"width": round(INCH * width), "height": round(INCH * height)}


def laid_out(picture: Figure) -> tuple[int, int]:
    """Place everything in a picture as it will be drawn; gives its width and height in pixels."""
    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    return canvas.get_width_height()


def to_png(picture: Figure, dpi: int = DPI) -> bytes:
    """A picture as PNG, on white."""
    buffer, before = io.BytesIO(), picture.get_dpi()
    picture.set_dpi(dpi)
    picture.set_facecolor("white")
    FigureCanvasAgg(picture).print_png(buffer, metadata={"Software": None})
    picture.set_dpi(before)
    return buffer.getvalue()


def to_pdf(picture: Figure) -> bytes:
    """A picture as PDF, on no ground, without a date; fonts are embedded and text is text."""
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    buffer, before = io.BytesIO(), picture.get_dpi()
    picture.set_facecolor("none")
    picture.set_dpi(FINE)
    absent: Any = {"CreationDate": None, "Producer": None, "Creator": None}
    with rc_context(PRINT):
        FigureCanvasPdf(picture).print_pdf(buffer, metadata=absent)
    picture.set_dpi(before)
    return buffer.getvalue()


def wrap(text: str, inches: float, points: float) -> str:
    """Break a line where it would be longer than `inches` in letters of `points`.

    Formulas between dollar signs are never broken, and lines that were broken stay so.

    >>> wrap("maxima of the potential", 1.0, 10.0)
    'maxima of the\\npotential'
    """
    room = max(72 * inches / (LETTER * points), 6.0)
    lines = []
    for line in text.split("\n"):
        lines.append("")
        for word in re.findall(r"(?:\$[^$]*\$|[^\s$])+", line):
            longer = f"{lines[-1]} {word}" if lines[-1] else word
            if lines[-1] and _length(longer) > room:
                lines.append(word)
            else:
                lines[-1] = longer
    return "\n".join(lines)


def _length(text: str) -> int:
    """Letters that are seen: a command of a formula is one, braces are none."""
    return len(re.sub(r"\\[a-zA-Z]+ ?|\\.", "x", text).translate(str.maketrans("", "", "{}$^_")))
