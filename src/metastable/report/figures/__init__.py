"""Figures of results, as data: which suit a run, and what each shows."""

from __future__ import annotations

from metastable.core.figure import Figure
from metastable.flows import Trajectory
from metastable.measures import Density, Gaussian
from metastable.observe.summary import attention_of
from metastable.report.figures import run as tokens

__all__ = ["figures_of"]


def figures_of(run: Trajectory) -> dict[str, Figure]:
    """Figures of a run by name; their captions say what is shown, in which units and clock.

    Tokens themselves first: `angles` on the circle, `sphere` on S², `hulls` (or `line` for d = 1)
    in R^d. Then, for any d, `clusters`, `energy` (self-attention on the sphere), `similarity` and
    `rank`. A density has `density` (or `maps` on S²), `amplitudes` and `energy`; a Gaussian has
    `moments`. A run of a single frame has no figures.
    """
    if len(run.times) < 2:
        return {}
    first, energetic = run.frames[0], attention_of(run.field) is not None
    figures: dict[str, Figure] = {}
    if isinstance(first, Gaussian):
        from metastable.report.figures import gaussian

        return {"moments": gaussian.plot_moments(run)}
    if isinstance(first, Density):
        from metastable.report.figures import density

        if first.zonal or first.dim == 2:
            figures["density"] = density.plot_density(run)
        else:
            figures["maps"] = density.plot_maps(run)
        figures["amplitudes"] = density.plot_amplitudes(run)
        return figures | ({"energy": tokens.plot_energy(run)} if energetic else {})
    if first.on_sphere and first.dim == 2:
        figures["angles"] = tokens.plot_angles(run)
    elif first.on_sphere and first.dim == 3:
        figures["sphere"] = tokens.plot_strip(run)
    elif not first.on_sphere and first.dim > 1:
        figures["hulls"] = tokens.plot_hulls(run)
    elif not first.on_sphere and tokens.token_tracks(run) is not None:
        figures["line"] = tokens.plot_line(run)
    figures["clusters"] = tokens.plot_clusters(run)
    if first.on_sphere and energetic:
        figures["energy"] = tokens.plot_energy(run)
    if first.dim > 1:
        figures |= {"similarity": tokens.plot_similarity(run), "rank": tokens.plot_rank(run)}
    return figures
