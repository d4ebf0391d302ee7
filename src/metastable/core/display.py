"""A place in a notebook whose content is replaced, at most twice a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

EVERY = 0.5  # seconds between two contents


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook; IPython is not loaded to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class Cell:
    """Content below a cell of a notebook; `clock` gives seconds, from any beginning."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self.clock, self.handle, self.last = clock, None, -float("inf")

    def update(self, content: Callable[[], str], now: bool = False) -> None:
        """Show the HTML that `content` gives, unless something was shown just before.

        `now` shows it all the same. `content` is asked only if it is to be shown.
        """
        if not now and self.clock() - self.last < EVERY:
            return
        self._put(content())
        self.last = self.clock()  # what takes long to draw is drawn less often

    def clear(self) -> None:
        """Leave nothing behind."""
        if self.handle is not None:
            self._put("")

    def _put(self, text: str) -> None:
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        if self.handle is None:
            self.handle: Any = display(HTML(text), display_id=True)
        else:
            self.handle.update(HTML(text))


def progress_html(title: str, share: float, left: str = "") -> str:
    """A bar for a notebook."""
    return f'<label>{title} <progress max="1" value="{share:.3f}"></progress>{left}</label>'
