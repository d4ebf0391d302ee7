"""Results in a notebook: a sentence, a picture, and what is long folded below."""

from __future__ import annotations

import base64
import sys
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from metastable.comparison.citations import readable
from metastable.comparison.prediction import Prediction
from metastable.core.display import in_notebook, progress_html
from metastable.core.figure import Figure, Film
from metastable.core.numerics import is_traced
from metastable.core.result import Result, shown
from metastable.core.verdict import AGREE, DISAGREE, Comparison, Verdict
from metastable.flows import Trajectory
from metastable.measures import Measure
from metastable.report.drawing import draw
from metastable.report.picture import screen_size, to_png

HEAVIEST = 3_000_000  # bytes of a film inside a notebook
QUICK = 110  # dots an inch of pictures that are soon replaced
COLORS = {AGREE: "#1a7f37", DISAGREE: "#cf222e"}
FEW = 6  # verdict rows that are shown at once
WIDTH = "max-width:52rem"


def html_of(value: Any) -> str | None:
    """A value as HTML; None for what is being traced by JAX, which has no numbers yet."""
    if isinstance(value, Film):
        return film_html(value)
    if isinstance(value, Figure):
        return figure_html(value)
    if isinstance(value, Measure | Trajectory):
        measure = value.frames[-1] if isinstance(value, Trajectory) else value
        if is_traced(measure):
            return None
    for kind, make in _MAKERS.items():
        if isinstance(value, kind):
            return f'<div style="{WIDTH}">{make(value)}</div>'
    return f'<div style="{WIDTH}">{_inspection(value)}</div>'


def show_value(value: Any) -> None:
    """Display a value in a notebook; elsewhere write a page, print its path, and open it."""
    text = html_of(value)
    if text is None:
        raise ValueError("a traced value has nothing to show: call it with numbers.")
    if in_notebook():
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        display(HTML(text))
        return
    folder = Path(tempfile.mkdtemp(prefix="metastable-"))
    page = folder / f"{type(value).__name__.lower()}.html"
    head = '<!doctype html><meta charset="utf-8"><title>Metastable</title>'
    head += '<body style="font-family:sans-serif;margin:2rem auto;max-width:56rem">'
    page.write_text(head + text, encoding="utf-8")
    print(page)
    if sys.stdout.isatty():
        webbrowser.open(page.as_uri())


def figure_html(figure: Figure | None, dpi: int | None = None) -> str:
    """A figure as an image inside the text, with its caption for those who cannot see it."""
    if figure is None:
        return ""
    picture = draw(figure)
    data = to_png(picture) if dpi is None else to_png(picture, dpi)
    return _image("png", data, figure.caption, screen_size(picture))


def film_html(film: Film) -> str:
    """A film as a GIF inside the text; every second frame, and so on, where it is too heavy."""
    from metastable.report.gif import DPI, draw_frames, encode

    frames = draw_frames(film)
    data = encode(frames, film.seconds)
    while len(data) > HEAVIEST and len(frames) > 2:
        frames = frames[::-2][::-1]  # the last stays
        data = encode(frames, film.seconds)
    height, width = (round(100 * side / DPI) for side in frames.shape[1:3])
    return _image("gif", data, film.caption, {"width": width, "height": height})


def frame_html(frame: Any, clock: str, share: float, view: Any = None) -> str:
    """One frame of a run under way, and how far it is; S² is seen as `view` says."""
    from metastable.report.figures.measures import plot_measure

    title = f"t = {frame.time:.3g}" + (f" ({clock} clock)" if clock else "")
    bar = "" if share >= 1 else f"<br>{progress_html('', share)}"
    return figure_html(plot_measure(frame.measure, title, view), QUICK) + bar


def table_of(result: Result) -> Any:
    """The table of a result: a flow's frames, a sweep's cells, an ensemble's starts, else facts."""
    import pandas

    if result.kind == "flow":
        from metastable.comparison.run import trajectory_of

        return trajectory_of(result).to_dataframe()
    if result.kind == "sweep":
        from metastable.sweep.status import table_of_means

        return table_of_means(result.data["cells"])
    if result.kind == "ensemble":
        data = result.data["samples"]
        kept = [name for name in data if set(data[name].dims) <= {"sample", "time"}]
        return data[kept].to_dataframe().reset_index()
    facts = [{"quantity": name, "value": value} for name, value in result.facts.items()]
    return pandas.DataFrame(facts)


def _trajectory(run: Trajectory) -> str:
    from metastable.report.figures import picture_of

    head, *rest = repr(run).splitlines()
    lines = dict(line.split(maxsplit=1) for line in rest)
    said = f"{head}, {lines['time']}: {run.outcome.name}."
    more = f"<pre>{escape(chr(10).join(rest))}</pre>"
    return _sentence(said) + figure_html(picture_of(run)) + _folded("how it ran", more)


def _measure(measure: Measure) -> str:
    from metastable.report.figures.measures import plot_measure

    return _sentence(repr(measure)) + figure_html(plot_measure(measure))


def _prediction(prediction: Prediction) -> str:
    from metastable.report.figures.answers import plot_prediction

    beta = "" if prediction.beta is None else f", β = {prediction.beta:g}"
    count = "" if prediction.tokens is None else f", {prediction.tokens} tokens"
    said = f"Theory for S^{prediction.dim - 1}{beta}{count}; times in the {prediction.clock} clock."
    table = prediction.to_table()
    known = {name: text for name, text in table.items() if not text.startswith("–")}
    silent = {name: text for name, text in table.items() if name not in known}
    rows = [{"quantity": name, "value": readable(text)} for name, text in known.items()]
    rest = [{"quantity": name, "why not": text.lstrip("– ")} for name, text in silent.items()]
    more = _folded(f"{len(rest)} quantities that are not known here", _table(rest)) if rest else ""
    return _sentence(said) + figure_html(plot_prediction(prediction)) + _table(rows) + more


def _comparison(comparison: Comparison) -> str:
    tested = [row for row in comparison.rows if row.verdict in COLORS]
    others = [row for row in comparison.rows if row.verdict not in COLORS]
    said = f"{comparison.count(AGREE)} of {len(tested)} tested claims agree."
    more = ""
    if others:
        rows = [{"claim": row.claim, "why not": row.reason} for row in others]
        more = _folded(f"{len(others)} claims that this run cannot test", _table(rows))
    return _sentence(said) + (_table([_row(row) for row in tested]) if tested else "") + more


def _row(row: Verdict) -> dict[str, Any]:
    return {
        "verdict": row.verdict,
        "claim": row.claim + (f" ({row.reason})" if row.reason else ""),
        "expected": shown(row.expected) if row.expected is not None else "–",
        "observed": shown(row.observed) if row.observed is not None else "–",
        "allowed": row.tolerance,
    }


def _result(result: Result) -> str:
    facts = {name: value for name, value in result.facts.items() if value is not None}
    rows = [{"fact": name, "value": shown(value)} for name, value in facts.items()]
    more = _folded("facts", _table(rows))
    if result.verdicts.rows:
        short = len(result.verdicts.rows) <= FEW
        more = _folded(repr(result.verdicts), _comparison(result.verdicts), short) + more
    where = "" if result.folder is None else f"<p><small>{escape(str(result.folder))}</small></p>"
    return _sentence(result.sentence or result.name) + _picture_of(result) + more + where


def _picture_of(result: Result) -> str:
    """The first picture of a result: kept with it, made from its data, or in its folder."""
    figures = [figure for figure in result.figures.values() if not isinstance(figure, Film)]
    if figures:
        return figure_html(figures[0])
    if result.kind == "flow":
        from metastable.comparison.run import trajectory_of
        from metastable.report.figures import picture_of

        return figure_html(picture_of(trajectory_of(result)))
    if result.kind == "sweep":
        from metastable.report.figures.sweep import figures_of_sweep

        spec: Any = result.spec
        return figure_html(next(iter(figures_of_sweep(result.data["cells"], spec).values()), None))
    if result.kind == "ensemble":
        from metastable.report.figures.ensemble import plot_ensemble

        return figure_html(plot_ensemble(result))
    drawn = [] if result.folder is None else sorted((result.folder / "figures").glob("*.svg"))
    drawn.sort(key=lambda file: file.stem != "familiarity")  # what an audit is about
    return _image("svg+xml", drawn[0].read_bytes(), drawn[0].stem) if drawn else ""


def _inspection(found: Any) -> str:
    """The answer of an inspection, its picture, and its verdicts folded below."""
    from metastable.report.figures.overlay import plot_overlay
    from metastable.report.figures.words import plot_groups

    figure = plot_overlay(found) if hasattr(found, "each") else plot_groups(found.groups)
    rows = found.verdicts
    more = _folded(repr(rows), _comparison(rows)) if rows.rows else ""
    return _sentence(found.sentence) + figure_html(figure) + more


def _sentence(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _folded(title: str, content: str, shown: bool = False) -> str:
    opened = " open" if shown else ""
    return f"<details{opened}><summary>{escape(title)}</summary>{content}</details>"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    left = 'style="text-align:left;vertical-align:top"'
    head = "".join(f"<th {left}>{escape(name)}</th>" for name in rows[0])
    lines = []
    for row in rows:
        cells = []
        for value in map(str, row.values()):
            color = COLORS.get(value)
            text = f'<b style="color:{color}">{escape(value)}</b>' if color else escape(value)
            cells.append(f"<td {left}>{text}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _image(kind: str, data: bytes, caption: str, size: Mapping[str, int] | None = None) -> str:
    wide = "" if size is None else f' width="{size["width"]}"'
    address = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    look = 'style="max-width:100%;height:auto"'
    return f'<img alt="{escape(caption)}" title="{escape(caption)}"{wide} {look} src="{address}">'


_MAKERS = {
    Trajectory: _trajectory,
    Measure: _measure,
    Prediction: _prediction,
    Comparison: _comparison,
    Result: _result,
}
