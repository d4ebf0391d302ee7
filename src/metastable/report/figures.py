"""The figures that suit a run."""

from __future__ import annotations

from matplotlib.figure import Figure

from metastable.flows import Trajectory
from metastable.measures import Density, Gaussian
from metastable.observe.summary import attention_of
from metastable.report.angles import draw_angles, draw_line
from metastable.report.densities import draw_amplitudes, draw_density, draw_maps
from metastable.report.gaussians import draw_moments
from metastable.report.globe import draw_strip
from metastable.report.hulls import draw_hulls
from metastable.report.series import draw_clusters, draw_energy, draw_rank, draw_similarity
from metastable.report.tracks import follow

__all__ = ["figures_of"]


def figures_of(run: Trajectory) -> dict[str, Figure]:
    """Figures of a run by name; `figure.get_label()` is the caption: what, units and clock.

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
        return {"moments": draw_moments(run)}
    if isinstance(first, Density):
        flat = first.zonal or first.dim == 2
        figures["density" if flat else "maps"] = draw_density(run) if flat else draw_maps(run)
        figures["amplitudes"] = draw_amplitudes(run)
        if attention_of(run.field) is not None:
            figures["energy"] = draw_energy(run)
        return figures
    if first.on_sphere and first.dim == 2:
        figures["angles"] = draw_angles(run)
    elif first.on_sphere and first.dim == 3:
        figures["sphere"] = draw_strip(run)
    elif not first.on_sphere and first.dim > 1:
        figures["hulls"] = draw_hulls(run)
    elif not first.on_sphere and follow(run) is not None:
        figures["line"] = draw_line(run)
    figures["clusters"] = draw_clusters(run)
    if first.on_sphere and attention_of(run.field) is not None:
        figures["energy"] = draw_energy(run)
    if first.dim > 1:
        figures["similarity"] = draw_similarity(run)
        figures["rank"] = draw_rank(run)
    return figures
