"""Figures, moving pictures and self-contained pages of runs; text for the terminal in `text`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metastable.core.lazy import lazy

if TYPE_CHECKING:
    from metastable.report.drawing import draw as draw
    from metastable.report.drawing import write_film as write_film
    from metastable.report.figures import figures_of as figures_of
    from metastable.report.figures.density import plot_amplitudes as plot_amplitudes
    from metastable.report.figures.density import plot_density as plot_density
    from metastable.report.figures.density import plot_maps as plot_maps
    from metastable.report.figures.gaussian import plot_moments as plot_moments
    from metastable.report.figures.run import film_in_space as film_in_space
    from metastable.report.figures.run import film_on_sphere as film_on_sphere
    from metastable.report.figures.run import plot_angles as plot_angles
    from metastable.report.figures.run import plot_clusters as plot_clusters
    from metastable.report.figures.run import plot_energy as plot_energy
    from metastable.report.figures.run import plot_hulls as plot_hulls
    from metastable.report.figures.run import plot_line as plot_line
    from metastable.report.figures.run import plot_rank as plot_rank
    from metastable.report.figures.run import plot_similarity as plot_similarity
    from metastable.report.figures.run import plot_strip as plot_strip
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
    from metastable.report.svg import save_figure as save_figure

# Imported on first use: the terminal's text must not wait for matplotlib.
_HOMES = {
    "drawing": "draw write_film",
    "figures": "figures_of",
    "figures.density": "plot_amplitudes plot_density plot_maps",
    "figures.gaussian": "plot_moments",
    "figures.run": (
        "film_in_space film_on_sphere plot_angles plot_clusters plot_energy plot_hulls "
        "plot_line plot_rank plot_similarity plot_strip"
    ),
    "noise": "draw_branches draw_phases",
    "page": "Facts Listing Noted Picture Section Table rows_table write_page",
    "recurrence": "draw_gradients draw_recall",
    "svg": "save_figure",
}
__getattr__, __dir__, _names = lazy("metastable.report", _HOMES)
__all__ = _names  # pyright: ignore[reportUnsupportedDunderAll]
