"""Figures as SVG text and files: deterministic, safe to place side by side, light and dark."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from metastable.core.figure import Figure, Film
from metastable.report.drawing import draw, to_svg
from metastable.report.picture import to_pdf, to_png
from metastable.report.styles import INK

_THEME = (
    f"<style>svg{{color:{INK}}}@media(prefers-color-scheme:dark){{svg{{color:#e4e6eb}}}}</style>"
)


def inline_svg(figure: Figure, name: str) -> str:
    """A figure as <svg> in the text color of its page; its identifiers begin with `name`."""
    return _svg(draw(figure), name)


def _svg(picture: Any, name: str) -> str:
    text = to_svg(picture)
    # matplotlib's own style is for "*", and would reach every element of the page.
    extras = r"<!--.*?-->\s*|<metadata>.*?</metadata>\s*|<style.*?</style>"
    text = re.sub(extras, "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    text = text.replace("xlink:href=", "href=").replace(INK, "currentColor")
    label = escape(picture.get_label() or name)
    first = f'<svg role="img" aria-label="{label}" stroke-linejoin="round" '
    return _rename(text, name).replace("<svg ", first, 1).strip() + "\n"


def save_figure(figure: Figure, folder: str | Path, name: str) -> tuple[Path, Path]:
    """Write `name`.svg, which follows the reader's theme, and `name`.png on white."""
    picture, folder = draw(figure), Path(folder)
    vector, raster = _write_svg(picture, folder, name), folder / f"{name}.png"
    picture.set_layout_engine("none")  # as the SVG was laid out
    raster.write_bytes(to_png(picture))
    return vector, raster


def save_picture(
    figure: Figure, path: str | Path, *, size: Any = None, style: str | None = None
) -> Path:
    """Write a figure into one file: .pdf, .svg or .png; a film into a .gif."""
    path = Path(path)
    if isinstance(figure, Film):
        from metastable.report.gif import write_film

        kinds = {".gif": lambda: write_film(figure, path)}
    else:
        picture = lambda: draw(figure, size=size, style=style)
        kinds = {
            ".pdf": lambda: path.write_bytes(to_pdf(picture())),
            ".svg": lambda: _write_svg(picture(), path.parent, path.stem),
            ".png": lambda: path.write_bytes(to_png(picture())),
        }
    if path.suffix.lower() not in kinds:
        *others, last = kinds
        ends = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"path must end in {ends}; got {path.name!r}: choose one.")
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds[path.suffix.lower()]()
    return path


def save_vector(figure: Figure, folder: str | Path, name: str) -> Path:
    """Write `name`.svg alone: half the time."""
    return _write_svg(draw(figure), Path(folder), name)


def _write_svg(picture: Any, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.svg"
    head, body = _svg(picture, name).split(">", 1)
    path.write_text(f"{head}>{_THEME}{body}", encoding="utf-8")
    return path


def stored_svg(file: Path, name: str) -> str:
    """The element that `save_figure` wrote, for a page, which sees to the reader's theme itself."""
    text = file.read_text(encoding="utf-8")
    return _rename(re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL), name)


def _rename(text: str, name: str) -> str:
    """Short identifiers for what is referred to: matplotlib's own are random, or repeated."""
    used = dict.fromkeys(re.findall(r'(?:href="|url\()#([^")]+)', text))
    fresh = {old: f"{name}-{k}" for k, old in enumerate(used)}
    identifier = lambda match: f' id="{fresh[match[1]]}"' if match[1] in fresh else ""
    text = re.sub(r' id="([^"]+)"', identifier, text)
    return re.sub(r'(href="|url\()#([^")]+)', lambda match: f"{match[1]}#{fresh[match[2]]}", text)
