"""Figures of results, as data: which suit a run, and what each shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from metastable.core.figure import Figure
from metastable.core.result import ROOT, Result
from metastable.flows import Trajectory
from metastable.measures import Density, Gaussian
from metastable.observe.summary import attention_of
from metastable.report.figures import run as tokens
from metastable.sweep.observables import read_own

__all__ = ["figures_of", "picture_of"]


def figures_of(run: Trajectory) -> dict[str, Figure]:
    """Figures of a run by name; their captions say what is shown, in which units and clock.

    Tokens themselves first: `angles` on the circle, `sphere` on S², `hulls` (or `line` for d = 1)
    in R^d. Then, for any d, `clusters`, `energy` (self-attention on the sphere), `similarity`,
    `rank` and observables you registered. A density has `density` (or `maps` on S²), `amplitudes`
    and `energy`; a Gaussian has `moments`. A run of a single frame has no figures. What
    `models.inspect`, `metastable.run` or `metastable.ensemble` returned may be given as well.
    """
    if not isinstance(run, Trajectory):
        return _of_result(run)
    return {name: draw() for name, draw in _makers(run).items()}


def _of_result(found: Any) -> dict[str, Figure]:
    """Figures of a result, of one inspected model or of several; anything else is refused."""
    from metastable.comparison.run import trajectory_of
    from metastable.report.pages import inspect

    if isinstance(found, Result):
        if found.kind == "sweep":
            return _of_sweep(found)
        if found.kind == "ensemble":
            from metastable.report.figures.ensemble import figures_of_ensemble

            return figures_of_ensemble(found)
        return figures_of(trajectory_of(found)) if found.kind == "flow" else dict(found.figures)
    if hasattr(found, "each"):
        return inspect.figures_of_many(found)
    if hasattr(found, "control_groups"):
        return inspect.figures_of_inspection(found)
    raise ValueError(
        "run must be a trajectory, a result or an inspection of a model; "
        f"got {type(found).__name__}: give what flow, capture or models.inspect returned."
    )


def _of_sweep(result: Result) -> dict[str, Figure]:
    """A figure of each observable, and maps of standard errors as NAME_error."""
    from metastable.report.figures.sweep import figures_of_sweep
    from metastable.sweep.rows import observable_of
    from metastable.sweep.spec import Sweep
    from metastable.sweep.status import in_order

    verdicts = {observable_of(row): row.verdict for row in result.verdicts.rows}
    data = in_order(result.data[ROOT])
    return figures_of_sweep(data, Sweep.model_validate(data.attrs["sweep"]), verdicts)


def picture_of(run: Trajectory) -> Figure:
    """The first of the figures of a run; of a single frame, the measure."""
    makers = _makers(run)
    if not makers:
        from metastable.report.figures.measures import plot_measure

        return plot_measure(run.frames[0])
    first = next(iter(makers))
    # Of tokens that cannot be drawn themselves, cosines say most.
    return makers["similarity" if first == "clusters" and "similarity" in makers else first]()


def _makers(run: Trajectory) -> dict[str, Callable[[], Figure]]:
    """What makes each figure of a run, by name, in order."""
    if len(run.times) < 2:
        return {}
    first, energetic = run.frames[0], attention_of(run.field) is not None
    makers: dict[str, Any] = {}
    if isinstance(first, Gaussian):
        from metastable.report.figures import gaussian

        return {"moments": partial(gaussian.plot_moments, run)}
    if isinstance(first, Density):
        from metastable.report.figures import density

        if first.zonal or first.dim == 2:
            makers["density"] = density.plot_density
        else:
            makers["maps"] = density.plot_maps
        makers["amplitudes"] = density.plot_amplitudes
        makers |= {"energy": tokens.plot_energy} if energetic else {}
        return {name: partial(maker, run) for name, maker in makers.items()}
    if first.on_sphere and first.dim == 2:
        makers["angles"] = tokens.plot_angles
    elif first.on_sphere and first.dim == 3:
        makers["sphere"] = tokens.plot_strip
    elif not first.on_sphere and first.dim > 1:
        makers["hulls"] = tokens.plot_hulls
    elif not first.on_sphere and tokens.token_tracks(run) is not None:
        makers["line"] = tokens.plot_line
    makers["clusters"] = tokens.plot_clusters
    if first.on_sphere and energetic:
        makers["energy"] = tokens.plot_energy
    if first.dim > 1:
        makers |= {"similarity": tokens.plot_similarity, "rank": tokens.plot_rank}
    for name, (about, values) in read_own(run).items():
        if not isinstance(values, str) and values.ndim:
            makers[name] = partial(tokens.plot_own, about=about, values=values)
    return {name: partial(maker, run) for name, maker in makers.items()}
