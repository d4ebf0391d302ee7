"""What a sweep shows while it runs: a bar with rate and time left, and the map so far."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from metastable.core.progress import Bar
from metastable.sweep.store import Store

SHADES = " ·░▒▓█"
WIDEST, TALLEST = 72, 20  # characters of the map
EVERY = 3.0  # seconds between two drawings of the map, which reads the store


class Watch:
    """A bar on a terminal, once two seconds have passed, with the map of the first observable.

    In a notebook a plain bar, elsewhere a line every half minute; nothing with `enabled` False.
    """

    def __init__(self, store: Store, missing: int, enabled: bool | None = None):
        self.store, self.missing = store, missing
        self.enabled = sys.stderr.isatty() if enabled is None else enabled
        self.lines = Bar("sweep") if enabled is None and not self.enabled else None
        self.started = self.drawn = time.perf_counter()
        self.live: Any = None
        self.progress: Any = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
        if self.lines is not None:
            self.lines.__exit__()

    def update(self, finished: int) -> None:
        if self.lines is not None:
            self.lines.update(finished / max(self.missing, 1))
        now = time.perf_counter()
        if not self.enabled or now - self.started < 2.0:
            return
        if self.live is None:
            self.live = self._open()
        rate = finished / (now - self.started)
        self.progress.update(self.task, completed=finished, rate=f"{rate:.3g} cells/s")
        if now - self.drawn > EVERY:
            from rich.console import Group
            from rich.text import Text

            self.store.flush()
            self.live.update(Group(Text(ascii_map(self.store)), self.progress))
            self.drawn = time.perf_counter()

    def _open(self) -> Any:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Left

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), Left())
        self.progress = Progress("sweep", *columns)
        self.task = self.progress.add_task("sweep", total=self.missing, rate="")
        live = Live(self.progress, console=Console(stderr=True), transient=True)
        live.start()
        return live


def ascii_map(store: Store) -> str:
    """The first observable over its two longest dimensions, the mean over the others; ? is open."""
    import xarray

    one = store.plan.observables[0]
    data = xarray.open_zarr(store.data.resolve(), chunks=None)[one.name]
    across = sorted(data.dims, key=lambda dim: -data.sizes[dim])[:2]
    # Few cells of a large sweep are read: a map has room for no more.
    thin = {d: slice(None, None, max(1, data.sizes[d] // WIDEST)) for d in across}
    rest = {d: slice(0, 4) for d in data.dims if d not in across}
    values = data.isel({**thin, **rest}).values
    axes = tuple(k for k, dim in enumerate(data.dims) if dim not in across)
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        grid = np.where(known, values, 0).sum(axes) / known.sum(axes)
    order = [dim for dim in data.dims if dim in across]
    if len(across) == 1:
        grid, order = grid[None], ["", *order]
    elif grid.shape[0] > grid.shape[1]:
        grid, order = grid.T, order[::-1]
    grid = grid[:: max(1, -(-grid.shape[0] // TALLEST)), : 2 * WIDEST]
    finite = grid[np.isfinite(grid)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    scaled = (grid - low) / (high - low if high > low else 1.0)
    shade = lambda v: SHADES[int(v * (len(SHADES) - 1) + 0.5)] if np.isfinite(v) else "?"
    lines = ["".join(map(shade, row)) for row in scaled[::-1]]
    title = f"{one.name} from {low:.3g} ({SHADES[0]!r}) to {high:.3g} ({SHADES[-1]})"
    named = f"{order[0]} upwards, {order[1]} to the right" if order[0] else f"{order[1]}"
    return "\n".join([title, *lines, named])
