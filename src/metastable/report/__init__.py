"""Figures, moving pictures and self-contained pages of runs; text for the terminal in `text`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metastable.core.lazy import lazy

if TYPE_CHECKING:
    from metastable.report.angles import draw_angles as draw_angles
    from metastable.report.angles import draw_line as draw_line
    from metastable.report.animation import animate as animate
    from metastable.report.figures import figures_of as figures_of
    from metastable.report.globe import draw_strip as draw_strip
    from metastable.report.hulls import draw_hulls as draw_hulls
    from metastable.report.noise import draw_branches as draw_branches
    from metastable.report.noise import draw_phases as draw_phases
    from metastable.report.page import Facts as Facts
    from metastable.report.page import Listing as Listing
    from metastable.report.page import Noted as Noted
    from metastable.report.page import Picture as Picture
    from metastable.report.page import Section as Section
    from metastable.report.page import Table as Table
    from metastable.report.page import rows_table as rows_table
    from metastable.report.page import write_page as write_page
    from metastable.report.recurrence import draw_gradients as draw_gradients
    from metastable.report.recurrence import draw_recall as draw_recall
    from metastable.report.runs import report_run as report_run
    from metastable.report.runs import report_runs as report_runs
    from metastable.report.series import draw_clusters as draw_clusters
    from metastable.report.series import draw_energy as draw_energy
    from metastable.report.series import draw_rank as draw_rank
    from metastable.report.series import draw_similarity as draw_similarity
    from metastable.report.svg import save_figure as save_figure

# Imported on first use: the terminal's text must not wait for matplotlib.
_HOMES = {
    "angles": "draw_angles draw_line",
    "animation": "animate",
    "figures": "figures_of",
    "globe": "draw_strip",
    "hulls": "draw_hulls",
    "noise": "draw_branches draw_phases",
    "page": "Facts Listing Noted Picture Section Table rows_table write_page",
    "recurrence": "draw_gradients draw_recall",
    "runs": "report_run report_runs",
    "series": "draw_clusters draw_energy draw_rank draw_similarity",
    "svg": "save_figure",
}
__getattr__, __dir__, _names = lazy("metastable.report", _HOMES)
__all__ = _names  # pyright: ignore[reportUnsupportedDunderAll]
