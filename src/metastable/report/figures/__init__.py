"""Figures of results, as data: which suit a run, and what each shows."""

from __future__ import annotations

from metastable.core.figure import Figure
from metastable.flows import Trajectory
from metastable.measures import Density, Gaussian
from metastable.observe.summary import attention_of
from metastable.report.figures.density import plot_amplitudes, plot_density, plot_maps
from metastable.report.figures.gaussian import plot_moments
from metastable.report.figures.run import (
    plot_angles,
    plot_clusters,
    plot_energy,
    plot_hulls,
    plot_line,
    plot_rank,
    plot_similarity,
    plot_strip,
)
from metastable.report.figures.tracks import follow

__all__ = ["figures_of"]


def figures_of(run: Trajectory) -> dict[str, Figure]:
    """Figures of a run by name; their captions say what is shown, in which units and clock.

    Tokens themselves first: `angles` on the circle, `sphere` on S², `hulls` (or `line` for d = 1)
    in R^d. Then, for any d, `clusters`, `energy` (self-attention on the sphere), `similarity` and
    `rank`. A density has `density` (or `maps` on S²), `amplitudes` and `energy`; a Gaussian has
    `moments`. A run of a single frame has no figures.
    """
    first = run.frames[0]
    if len(run.times) < 2:
        return {}
    figures: dict[str, Figure] = {}
    if isinstance(first, Gaussian):
        return {"moments": plot_moments(run)}
    if isinstance(first, Density):
        flat = first.zonal or first.dim == 2
        figures["density" if flat else "maps"] = plot_density(run) if flat else plot_maps(run)
        figures["amplitudes"] = plot_amplitudes(run)
        if attention_of(run.field) is not None:
            figures["energy"] = plot_energy(run)
        return figures
    if first.on_sphere and first.dim == 2:
        figures["angles"] = plot_angles(run)
    elif first.on_sphere and first.dim == 3:
        figures["sphere"] = plot_strip(run)
    elif not first.on_sphere and first.dim > 1:
        figures["hulls"] = plot_hulls(run)
    elif not first.on_sphere and follow(run) is not None:
        figures["line"] = plot_line(run)
    figures["clusters"] = plot_clusters(run)
    if first.on_sphere and attention_of(run.field) is not None:
        figures["energy"] = plot_energy(run)
    if first.dim > 1:
        figures["similarity"] = plot_similarity(run)
        figures["rank"] = plot_rank(run)
    return figures
