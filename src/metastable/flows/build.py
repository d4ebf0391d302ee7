"""A whole experiment: from its spec to its trajectory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import diffrax
import equinox as eqx

from metastable.core import checks
from metastable.fields import Block, Field, Rescaled, Superposition
from metastable.fields.build import build_field
from metastable.fields.noise import diffusion
from metastable.fields.sums import Dense
from metastable.flows.density import Resolution
from metastable.flows.flow import flow
from metastable.flows.hardmax import hardmax
from metastable.flows.layers import layers
from metastable.flows.meanfield import mean_field
from metastable.flows.staircase import Merge
from metastable.flows.steppers import Adaptive, Fixed, Geodesic
from metastable.flows.trajectory import Trajectory
from metastable.measures import Density, Points
from metastable.measures.build import build_measure
from metastable.spec import experiment as spec
from metastable.spec.experiment import Experiment, Flow

__all__ = ["build_start", "run_experiment"]

MOST_FRAMES = 100_000


def build_start(experiment: Experiment) -> tuple[Points | Density, Field]:
    """The measure and the field of a spec, checked against each other and against the flow.

    Nothing moves yet, but what can be refused is refused here.
    """
    how = experiment.flow
    _check_size(how.frames, getattr(experiment.measure, "tokens", 0), experiment.measure)
    _depth(how)
    measure = build_measure(experiment.measure)
    field = build_field(experiment.field, measure.dim)
    if isinstance(measure, Density):
        mean_field(field, measure.basis)  # refuses what cannot move a density
        _check_density(how)
        return measure, field
    _check_size(how.frames, measure.count, measure)
    if needs_space(field):
        measure = measure.euclidean()
    eqx.filter_eval_shape(lambda m, f: f.velocity(m, t=0.0), measure, field)
    _check_tokens(how, field)
    return measure, field


def run_experiment(
    experiment: Experiment,
    *,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    start: tuple[Points | Density, Field] | None = None,
) -> Trajectory:
    """Run the flow of a spec, from what `build_start` made of it if that is at hand."""
    measure, field = start or build_start(experiment)
    how = experiment.flow
    horizon = math.inf if how.horizon == "end" else how.horizon
    if isinstance(measure, Density):
        return _run_density(measure, field, horizon, how, progress)
    if isinstance(how.stepper, spec.LayersSpec):
        return layers(measure, field, _depth(how), how.stepper.step, frames=how.frames)
    if isinstance(how.stepper, spec.HardmaxSpec):
        return hardmax(measure, field, horizon, frames=how.frames, radius=how.stepper.radius)
    merge = Merge(how.stepper.radius) if isinstance(how.stepper, spec.MergingSpec) else None
    return flow(
        measure,
        field,
        horizon,
        sum=Dense() if how.sum == "dense" else None,
        check=how.check,
        merge=merge,
        stepper=_stepper(how.stepper),
        frames=how.frames,
        seed=how.seed,
        progress=progress,
        checkpoint=None if merge is not None else checkpoint,
    )


def _run_density(
    measure: Density, field: Field, horizon: float, how: Flow, progress: bool | None
) -> Trajectory:
    stepper = None
    if isinstance(how.stepper, spec.AdaptiveSpec):
        pair = diffrax.Tsit5() if float(diffusion(field)) > 0 else diffrax.Dopri8()
        stepper = Adaptive(how.stepper.rtol, how.stepper.atol, pair, how.stepper.max_steps)
    return flow(
        measure,
        field,
        horizon,
        stepper=stepper,
        resolution=None if how.resolution is None else Resolution(**how.resolution.model_dump()),
        handover=how.handover,
        frames=how.frames,
        seed=how.seed,
        progress=progress,
    )


def needs_space(field: Field) -> bool:
    """Whether a field moves tokens off the sphere: pure attention, and placements with a radius."""
    if isinstance(field, Superposition):
        return any(needs_space(part) for part in field.parts)
    return isinstance(field, Rescaled) or (
        isinstance(field, Block) and field.placement.moves_radius
    )


def _depth(how: Flow) -> int:
    """The number of layers in the horizon, 0 in continuous depth."""
    if not isinstance(how.stepper, spec.LayersSpec) or how.horizon == "end":
        return 0
    step = how.stepper.step
    depth = round(how.horizon / step)
    if depth < 1 or abs(depth * step - how.horizon) > 1e-9 * how.horizon:
        raise ValueError(
            f"flow.horizon must be a whole number of layers of step {step:g}; got "
            f"{how.horizon:g}: take {max(depth, 1) * step:g}."
        )
    return depth


def _check_density(how: Flow) -> None:
    """Refuse what only tokens have."""
    if not isinstance(how.stepper, spec.AdaptiveSpec | None):
        raise ValueError(
            f'flow.stepper.kind must be "adaptive" for a density; got "{how.stepper.kind}".'
        )
    if how.sum != "auto" or how.check:
        raise ValueError("flow.sum and flow.check are for tokens; the measure is a density.")


def _check_tokens(how: Flow, field: Field) -> None:
    """Refuse what only densities have, and a stepper that cannot move this field."""
    if how.resolution is not None or how.handover is not None:
        raise ValueError(
            "flow.resolution and flow.handover are for densities; the measure is tokens: remove "
            "them, or take a density."
        )
    if how.stepper is None:
        return
    noisy = float(diffusion(field)) > 0
    if noisy != isinstance(how.stepper, spec.GeodesicSpec):
        need = 'must be "geodesic" for a field with noise' if noisy else "needs a field with noise"
        raise ValueError(
            f'flow.stepper.kind {need}; got "{how.stepper.kind}": leave it out, or change the '
            "field."
        )


def _check_size(frames: int, tokens: int, measure: Any) -> None:
    """Refuse what cannot fit, or would take hours, before a single token is drawn.

    Measured: a frame costs 9 KB and 4 ms beside its tokens, from the solver to the page; the
    frames themselves are held about three times.
    """
    if frames > MOST_FRAMES:
        raise ValueError(
            f"flow.frames must be at most {MOST_FRAMES}; got {frames}: ask for fewer, or cut the "
            "horizon into several runs."
        )
    dim = getattr(measure, "dim", 0)
    checks.fits_memory(
        f"keeping {frames} frames of {tokens} tokens in dimension {dim}",
        frames * (1100.0 + 3.0 * tokens * dim),
        "ask for fewer tokens, a smaller dim or fewer frames",
    )


def _stepper(described: Any) -> Adaptive | Fixed | Geodesic | None:
    if isinstance(described, spec.AdaptiveSpec):
        return Adaptive(described.rtol, described.atol, max_steps=described.max_steps)
    if isinstance(described, spec.MergingSpec):
        return Adaptive(described.rtol, described.atol)
    if isinstance(described, spec.EulerSpec):
        return Fixed(described.step, diffrax.Euler())
    if isinstance(described, spec.GeodesicSpec):
        return Geodesic(described.step)
    return None
