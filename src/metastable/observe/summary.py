"""The numbers a run is reported by."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.fields import Field, SelfAttention, Superposition
from metastable.flows import Trajectory
from metastable.measures import Density, Gaussian, Points
from metastable.observe.circle import circle_energy, worth_harmonics
from metastable.observe.clusters import clusters
from metastable.observe.density import entropy, peaks
from metastable.observe.energy import energy
from metastable.observe.modes import amplitudes

STATISTICS = "max_norm_drift step_norm_drift steps evaluations sum stepper seconds".split()
HARMONICS = 12  # degrees reported of a density


def attention_of(field: Field | None) -> SelfAttention | None:
    """The self-attention that a field is, alone or with noise; None where other forces join."""
    parts = field.parts if isinstance(field, Superposition) else (field,)
    movers = [part for part in parts if isinstance(part, Field) and part.clock is not None]
    head = movers[0] if len(movers) == 1 else None
    return head if isinstance(head, SelfAttention) else None


def energy_series(run: Trajectory) -> np.ndarray | None:
    """2βe^{−β}E_β of every frame (½‖Σwx‖² at β = 0), or None without an inverse temperature.

    For V = QᵀK symmetric it is that field's own energy, with ⟨Vx,y⟩ in the exponent, unscaled.
    """
    attention = attention_of(run.field)
    if attention is None or not getattr(run.frames[0], "on_sphere", False):
        return None
    beta, form = float(attention.beta), energy_form(attention)
    if form is None and beta > 0 and all(worth_harmonics(frame, beta) for frame in run.frames):
        return np.array([circle_energy(frame, beta) for frame in run.frames])
    return np.array(
        [float(energy(frame, beta, form, scaled=form is None and beta > 0)) for frame in run.frames]
    )


def energy_form(attention: SelfAttention) -> np.ndarray | None:
    """QᵀK where it is symmetric and equal to V, so that the field has an energy of its own."""
    query, key, value = attention.query, attention.key, attention.value
    if value is None or value.ndim == 0:
        return None
    eye = np.eye(value.shape[1])
    q = eye if query is None else np.asarray(query) * (eye if query.ndim == 0 else 1.0)
    k = eye if key is None else np.asarray(key) * (eye if key.ndim == 0 else 1.0)
    form = q.T @ k
    matches = form.shape == value.shape and np.allclose(form, value, rtol=0, atol=1e-12)
    return form if matches and np.allclose(form, form.T, rtol=0, atol=1e-12) else None


def summarize(run: Trajectory, seed: int | None = None) -> dict[str, Any]:
    """What `metastable run --json` prints, the output folder aside.

    `clusters` counts by linkage at the default angle (see `clusters`). `energy_monotone` says
    whether the energy never fell (V attracts) or never rose (V = −I, repulsion) between frames,
    to 1e−11 of its size; energies are E_β itself, null where e^β overflows.

    A Gaussian has the eigenvalues of its covariance, and the time of its blow-up.
    A run of a density counts the maxima of its potential as clusters, and adds the degree it
    ended with, the entropy of its densities, and the amplitudes of the first harmonics in every
    frame.
    """
    attention = attention_of(run.field)
    beta = None if attention is None else float(attention.beta)
    series = energy_series(run)
    factor = 1.0
    if beta and attention is not None and energy_form(attention) is None:
        factor = np.exp(beta) / (2 * beta) if beta < 700 else np.inf
    energies = None if series is None else series * factor
    ends = [None, None]
    if energies is not None and np.isfinite(energies).all():
        ends = [float(energies[0]), float(energies[-1])]
    counts = [
        [float(t), _count(frame, beta)] for t, frame in zip(run.times, run.frames, strict=True)
    ]
    first = run.frames[0]
    return {
        "outcome": run.outcome.name,
        "message": run.outcome.message,
        "clock": run.clock,
        "reached": float(run.times[-1]),
        "tokens": first.count if isinstance(first, Points) else None,
        "dim": first.dim,
        "beta": beta,
        "seed": seed,
        "clusters": counts,
        "energy_first": ends[0],
        "energy_last": ends[1],
        "energy_monotone": None if series is None else _monotone(series, attention),
        **{name: run.statistics.get(name) for name in STATISTICS},
        **(_of_density(run) if isinstance(first, Density) else {}),
        **(_of_gaussian(run) if isinstance(first, Gaussian) else {}),
    }


def _count(frame: Any, beta: float | None) -> int:
    return peaks(frame, beta or None) if isinstance(frame, Density) else clusters(frame, beta).count


def _of_density(run: Trajectory) -> dict[str, Any]:
    densities = [frame for frame in run.frames if isinstance(frame, Density)]
    return {
        "degree": run.statistics.get("degree"),
        "handover_time": run.statistics.get("handover_time"),
        "entropy_first": entropy(densities[0]),
        "entropy_last": entropy(densities[-1]),
        "times": run.times.tolist(),
        "amplitudes": [amplitudes(frame, HARMONICS).tolist() for frame in run.frames],
    }


def _of_gaussian(run: Trajectory) -> dict[str, Any]:
    """Eigenvalues of the covariance in the first and the last frame, and the time of a blow-up."""
    first, last = run.frames[0], run.frames[-1]
    return {
        "variances_first": np.asarray(first.eigenvalues).tolist(),
        "variances_last": np.asarray(last.eigenvalues).tolist(),
        "blow_up_time": run.statistics.get("blow_up_time"),
    }


def _monotone(series: np.ndarray, attention: SelfAttention | None) -> bool:
    value = None if attention is None else attention.value
    repulsive = value is not None and value.ndim == 0 and float(value) < 0
    change = -np.diff(series) if repulsive else np.diff(series)
    return bool((change >= -1e-11 * np.abs(series).max()).all())
