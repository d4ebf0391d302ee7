"""Results on a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from metastable.core.result import Result


def say(text: str, markup: bool = False) -> None:
    """Print a line as it is, however long."""
    Console().print(text, highlight=False, soft_wrap=True, markup=markup)


def table(*columns: str, left: tuple[str, ...] = ()) -> Table:
    """A table without lines, numbers flush right; no column is narrower than a word of its head."""
    made = Table(box=None, pad_edge=False, collapse_padding=True)
    for name in columns:
        side = "left" if name in left else "right"
        made.add_column(name, justify=side, min_width=max(map(len, name.split())))
    return made


def print_result(result: Result) -> None:
    """The answer, the facts and the outcome; of a flow when the number of clusters changed."""
    say(repr(result))
    facts = result.facts
    if result.kind == "flow":
        counted = "maxima of the potential" if "amplitudes" in facts else "linkage"
        counts = table(f"time ({facts['clock']} clock)", f"clusters ({counted})")
        for time, count in _changes(facts["clusters"]):
            counts.add_row("…" if time is None else f"{time:.4g}", count)
        Console().print(counts)
    if result.folder is not None:
        say(f"kept in {result.folder}")


def _changes(counts: list[list[float]], most: int = 12) -> list[tuple[float | None, str]]:
    """The first and last count and those where it changed; a long middle is left out, and said."""
    kept: list[tuple[float | None, str]] = [
        (time, str(int(count)))
        for k, (time, count) in enumerate(counts)
        if k in (0, len(counts) - 1) or count != counts[k - 1][1]
    ]
    if len(kept) <= most:
        return kept
    half = most // 2
    return [*kept[:half], (None, f"{len(kept) - 2 * half} changes"), *kept[-half:]]


def print_doctor(report: dict[str, Any]) -> None:
    """Versions, devices, the place of compiled code, extras, and one line per check."""
    facts = {"platform": report["platform"], "devices": ", ".join(report["devices"])}
    facts["compiled"] = escape(report["compiled"]["sentence"])
    for name, value in {**report["versions"], **facts}.items():
        say(f"{name:<12} {value}", markup=True)
    for name, extra in report["extras"].items():
        how = "installed" if extra["installed"] else f"not here: {escape(extra['install'])}"
        say(f"{name:<12} {extra['enables']} ({how})", markup=True)
    for name, passed in report["checks"].items():
        say(f"{'[green]ok[/]  ' if passed else '[red]FAIL[/]'}  {name}", markup=True)


def print_prediction(prediction: Any) -> None:
    """What theory says, one quantity a line."""
    console = Console()
    beta = "" if prediction.beta is None else f", β = {prediction.beta:g}"
    count = "" if prediction.tokens is None else f", {prediction.tokens} tokens"
    head = f"S^{prediction.dim - 1}{beta}{count}; rates and times in the {prediction.clock} clock"
    console.print(head, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for label, value in prediction.to_table().items():
        table.add_row(label, escape(value))
    console.print(table)


def print_comparison(comparison: Any) -> None:
    """The verdict rows, then the tally."""
    console = Console()
    table = Table(box=None, pad_edge=False)
    for name in ("verdict", "claim", "expected", "observed", "allowed"):
        most = None if name == "claim" else 13
        table.add_column(name, overflow="fold", max_width=most)
    marks = {"agree": "[green]agree[/]", "disagree": "[red]DISAGREE[/]", "not applicable": "n/a"}
    for row in comparison.rows:
        detail = f" [dim]({escape(row.reason)})[/]" if row.reason else ""
        cells = [marks[row.verdict], escape(row.claim) + detail]
        cells += [_shown(row.expected), _shown(row.observed)]
        table.add_row(*cells, escape(row.tolerance))
    console.print(table)
    console.print(repr(comparison), highlight=False)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else escape(str(value))
