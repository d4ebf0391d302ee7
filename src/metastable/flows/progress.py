"""A progress bar that appears only when a wait is worth one."""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["Bar"]


class Bar:
    """Shows the share of work done on a terminal, once two seconds have passed."""

    def __init__(self, title: str, enabled: bool | None = None):
        self.title = title
        self.enabled = sys.stderr.isatty() if enabled is None else enabled
        self.started = time.perf_counter()
        self.display: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.display is not None:
            self.display.stop()

    def update(self, share: float) -> None:
        if not self.enabled or time.perf_counter() - self.started < 2.0:
            return
        if self.display is None:
            from rich.console import Console
            from rich.progress import Progress

            self.display = Progress(console=Console(stderr=True), transient=True)
            self.display.start()
            self.task = self.display.add_task(self.title, total=1.0)
        self.display.update(self.task, completed=share)
