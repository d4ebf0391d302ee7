"""A whole experiment: from its spec to its trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffrax
import equinox as eqx

from metastable.core import checks
from metastable.fields import Block, Field, Rescaled, Superposition
from metastable.fields.build import build_field
from metastable.fields.noise import diffusion
from metastable.fields.random import is_noisy
from metastable.fields.sums import Dense
from metastable.flows import spec, steppers
from metastable.flows.driving import SPACING, Drive, drive, flow, is_resumable
from metastable.flows.solvers.affine import affine_velocity
from metastable.flows.solvers.mean_field import mean_field
from metastable.flows.spec import STEPPERS, Experiment, Flow
from metastable.flows.trajectory import Trajectory
from metastable.measures import Density, Gaussian
from metastable.measures.build import build_measure

MOST_FRAMES = 100_000


def build_start(experiment: Experiment) -> tuple[Any, Field]:
    """The measure and the field of a spec, checked against each other and against the flow.

    Nothing moves yet, but what can be refused is refused here.
    """
    how = experiment.flow
    _check_size(how.frames, getattr(experiment.measure, "tokens", 0), experiment.measure)
    if isinstance(how.stepper, spec.LayersSpec) and how.horizon != "end":
        build_stepper(how.stepper).depth(how.horizon)
    measure = build_measure(experiment.measure)
    field = build_field(experiment.field, measure.dim)
    if isinstance(measure, Density):
        mean_field(field, measure.basis)  # refuses what cannot move a density
        _check_mean_field(how, "a density", "adaptive fixed resolution")
        return measure, field
    if isinstance(measure, Gaussian):
        _check_mean_field(how, "a Gaussian", "adaptive fixed layers")
        # It refuses what does not keep the measure Gaussian.
        affine_velocity(field, measure.mean, measure.factor, 0.0)
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
    start: tuple[Any, Field] | None = None,
) -> Trajectory:
    """Run the flow of a spec, from what `build_start` made of it if that is at hand.

    `checkpoint` is used where such a run can keep one.
    """
    measure, field, horizon, choices = _call(experiment, start)
    kept = checkpoint if is_resumable(measure, choices["stepper"]) else None
    return flow(measure, field, horizon, **choices, progress=progress, checkpoint=kept)


def drive_experiment(
    experiment: Experiment,
    *,
    frames: Any = None,
    stopped: Callable[[], bool] = lambda: False,
    spacing: float = SPACING,
) -> Drive:
    """The flow of a spec as an iterator of frames; `frames` replaces those of the spec."""
    measure, field, horizon, choices = _call(experiment)
    choices["frames"] = choices["frames"] if frames is None else frames
    return drive(measure, field, horizon, **choices, stopped=stopped, spacing=spacing)


def _call(
    experiment: Experiment, start: tuple[Any, Field] | None = None
) -> tuple[Any, Field, float, dict[str, Any]]:
    """The arguments of `flow`."""
    measure, field = start or build_start(experiment)
    how = experiment.flow
    horizon = math.inf if how.horizon == "end" else how.horizon
    choices = dict(
        stepper=build_stepper(how.stepper, measure, field),
        sum=Dense() if how.sum == "dense" else None,
        frames=how.frames,
        seed=how.seed,
        check=how.check,
    )
    return measure, field, horizon, choices


def needs_space(field: Field) -> bool:
    """Whether a field moves tokens off the sphere: pure attention, and placements with a radius."""
    if isinstance(field, Superposition):
        return any(needs_space(part) for part in field.parts)
    return isinstance(field, Rescaled) or (
        isinstance(field, Block) and field.placement.moves_radius
    )


def _check_mean_field(how: Flow, what: str, kinds: str) -> None:
    """Refuse what only tokens have, for a density or a Gaussian that moves by some steppers."""
    *others, last = kinds.split()
    # A stepper from elsewhere says for itself what it moves.
    if isinstance(how.stepper, spec.Written) and how.stepper.kind not in kinds.split():
        named = ", ".join(f'"{kind}"' for kind in others)
        raise ValueError(
            f'flow.stepper.kind must be {named} or "{last}" for {what}; got "{how.stepper.kind}".'
        )
    if how.sum != "auto" or how.check:
        raise ValueError(f"flow.sum and flow.check are for tokens; the measure is {what}.")


def _check_tokens(how: Flow, field: Field) -> None:
    """Refuse what only densities have, and a stepper that cannot move this field."""
    if isinstance(how.stepper, spec.ResolutionSpec):
        raise ValueError(
            'flow.stepper.kind = "resolution" is for densities; the measure is tokens: choose '
            "another, or take a density."
        )
    if how.stepper is None:
        return
    noisy = is_noisy(field)
    if isinstance(how.stepper, spec.LayersSpec) and not float(diffusion(field)) > 0:
        return  # layers with random weights are layers
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


def build_stepper(described: Any, measure: Any = None, field: Any = None) -> Any:
    """The stepper that a spec describes."""
    if described is None:
        return None
    words = described.model_dump(exclude={"kind"})
    if not isinstance(described, spec.Written):
        return STEPPERS.maker(described)(**words)
    if "stepper" in words:
        words["stepper"] = build_stepper(getattr(described, "stepper", None), measure, field)
    if isinstance(described, spec.AdaptiveSpec):
        # The stages of a density with noise must not go back in time.
        slow = isinstance(measure, Density) and float(diffusion(field)) > 0
        words["solver"] = diffrax.Tsit5() if slow else diffrax.Dopri8()
    if isinstance(described, spec.FixedSpec):
        words["solver"] = getattr(diffrax, described.solver.title())()
    return getattr(steppers, described.kind.title())(**words)
