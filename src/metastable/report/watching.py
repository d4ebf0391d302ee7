"""A run watched while it moves."""

from __future__ import annotations

from collections.abc import Iterator

from metastable.core.display import Cell, in_notebook
from metastable.core.progress import Bar
from metastable.flows.driving import Drive
from metastable.flows.solvers.frames import Frame
from metastable.measures import Points


def live(run: Drive) -> Iterator[Frame]:
    """Iterate over a run under way, and show where it is, at most twice a second.

    In a notebook the picture of the last frame stands below the cell and stays when the run is
    over; on a terminal there is a bar. `run.trajectory()` is the run so far, at any moment.

    >>> import metastable as ms
    >>> run = ms.flows.drive(ms.uniform(tokens=20, dim=2), ms.SelfAttention(4.0), 5.0, frames=6)
    >>> len(list(live(run)))
    6
    """
    share = lambda: run.solver.share if run.started else 0.0
    if not in_notebook():
        with Bar("flow") as bar:
            for frame in run:
                bar.update(share())
                yield frame
        return
    from metastable.report.figures.run import view_of
    from metastable.report.notebook import frame_html

    cell, clock = Cell(), run.field.clock or ""
    view = view_of(run.start) if isinstance(run.start, Points) else None  # it stays
    show = lambda frame: cell.update(lambda: frame_html(frame, clock, share(), view))
    for frame in run:
        show(frame)
        yield frame
    cell.update(lambda: frame_html(run.solver.kept[-1], clock, 1.0, view), now=True)
