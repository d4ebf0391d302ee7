"""Figures, moving pictures and self-contained pages of runs; text for the terminal in `text`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metastable.core.lazy import lazy

if TYPE_CHECKING:
    from metastable.report.drawing import draw as draw
    from metastable.report.figures import figures_of as figures_of
    from metastable.report.figures.density import plot_amplitudes as plot_amplitudes
    from metastable.report.figures.density import plot_density as plot_density
    from metastable.report.figures.density import plot_maps as plot_maps
    from metastable.report.figures.films import film_in_space as film_in_space
    from metastable.report.figures.films import film_on_sphere as film_on_sphere
    from metastable.report.figures.gaussian import plot_moments as plot_moments
    from metastable.report.figures.learning import film_frames as film_frames
    from metastable.report.figures.learning import plot_curves as plot_curves
    from metastable.report.figures.learning import plot_frames as plot_frames
    from metastable.report.figures.learning import plot_gradients as plot_gradients
    from metastable.report.figures.learning import plot_recall as plot_recall
    from metastable.report.figures.noise import plot_branches as plot_branches
    from metastable.report.figures.noise import plot_phases as plot_phases
    from metastable.report.figures.plain import plot_bars as plot_bars
    from metastable.report.figures.plain import plot_histograms as plot_histograms
    from metastable.report.figures.plain import plot_image as plot_image
    from metastable.report.figures.plain import plot_lines as plot_lines
    from metastable.report.figures.run import plot_angles as plot_angles
    from metastable.report.figures.run import plot_clusters as plot_clusters
    from metastable.report.figures.run import plot_energy as plot_energy
    from metastable.report.figures.run import plot_hulls as plot_hulls
    from metastable.report.figures.run import plot_line as plot_line
    from metastable.report.figures.run import plot_rank as plot_rank
    from metastable.report.figures.run import plot_similarity as plot_similarity
    from metastable.report.figures.run import plot_strip as plot_strip
    from metastable.report.gif import write_film as write_film
    from metastable.report.page import Facts as Facts
    from metastable.report.page import Listing as Listing
    from metastable.report.page import Noted as Noted
    from metastable.report.page import Picture as Picture
    from metastable.report.page import Section as Section
    from metastable.report.page import Table as Table
    from metastable.report.page import rows_table as rows_table
    from metastable.report.page import write_page as write_page
    from metastable.report.styles import style as style
    from metastable.report.svg import save_figure as save_figure
    from metastable.report.watching import live as live

# Imported on first use: the terminal's text must not wait for matplotlib.
_HOMES = {
    "drawing": "draw",
    "figures": "figures_of",
    "figures.density": "plot_amplitudes plot_density plot_maps",
    "figures.films": "film_in_space film_on_sphere",
    "figures.gaussian": "plot_moments",
    "figures.learning": "film_frames plot_curves plot_frames plot_gradients plot_recall",
    "figures.noise": "plot_branches plot_phases",
    "figures.plain": "plot_bars plot_histograms plot_image plot_lines",
    "figures.run": (
        "plot_angles plot_clusters plot_energy plot_hulls "
        "plot_line plot_rank plot_similarity plot_strip"
    ),
    "gif": "write_film",
    "watching": "live",
    "page": "Facts Listing Noted Picture Section Table rows_table write_page",
    "styles": "style",
    "svg": "save_figure",
}
__getattr__, __dir__, _names = lazy("metastable.report", _HOMES)
__all__ = _names  # pyright: ignore[reportUnsupportedDunderAll]
