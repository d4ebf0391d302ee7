"""Progress of long work: a bar on a terminal or in a notebook, a line each half minute in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from metastable.core.display import Cell, in_notebook, progress_html

PATIENCE = 2.0  # seconds before a bar appears
HALF_MINUTE = 30.0  # seconds between two lines, and before the first


class Bar:
    """Shows the share of work done, on stderr or below the cell of a notebook.

    - `enabled`: False shows nothing, True a bar; None a bar on a terminal or in a notebook, once
      two seconds have passed, and `ProgressLines` elsewhere.
    - `clock`: seconds, from any beginning.
    """

    def __init__(
        self,
        title: str,
        enabled: bool | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self.title, self.clock = title, clock
        self.cell = Cell(clock) if enabled is not False and in_notebook() else None
        terminal = sys.stderr.isatty() or self.cell is not None
        self.enabled = terminal if enabled is None else enabled
        self.lines = ProgressLines(title, clock) if enabled is None and not self.enabled else None
        self.started = clock()
        self.display: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.display is not None:
            self.display.stop()
        if self.cell is not None:
            self.cell.clear()

    def update(self, share: float) -> None:
        if self.lines is not None:
            self.lines.update(share)
        if not self.enabled or self.clock() - self.started < PATIENCE:
            return
        if self.cell is not None:
            self.cell.update(lambda: progress_html(self.title, share))
            return
        if self.display is None:
            from rich.console import Console
            from rich.progress import Progress

            self.display = Progress(console=Console(stderr=True), transient=True)
            self.display.start()
            self.task = self.display.add_task(self.title, total=1.0)
        self.display.update(self.task, completed=share)


class ProgressLines:
    """Prints `title: 37 %, about 4 min left` to stderr, at most once in half a minute.

    The first line comes after half a minute, so short work prints nothing.
    """

    def __init__(self, title: str, clock: Callable[[], float] = time.perf_counter):
        self.title, self.clock = title, clock
        self.started = self.printed = clock()
        self.first: tuple[float, float] | None = None  # time and share of the first update

    def update(self, share: float) -> None:
        now = self.clock()
        if self.first is None:
            self.first = now, share
        if now - self.printed < HALF_MINUTE or share >= 1.0:
            return
        self.printed = now
        line = f"{self.title}: {100 * share:.0f} %{self._left(now, share)}"
        print(line, file=sys.stderr, flush=True)

    def _left(self, now: float, share: float) -> str:
        """Time left at the rate since the first update: before it lie compilation and resuming."""
        assert self.first is not None
        began, base = self.first if share > self.first[1] else (self.started, 0.0)
        if share <= base:
            return ""
        seconds = (now - began) * (1.0 - share) / (share - base)
        if seconds < 90:
            return f", about {max(1, round(seconds))} s left"
        if seconds < 5400:
            return f", about {round(seconds / 60)} min left"
        return f", about {seconds / 3600:.1f} h left"
