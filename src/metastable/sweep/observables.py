"""What a sweep can keep of a cell: numbers, or one number per time, by name.

An observable reads a finished run. Those that need inner products of pairs only are also known
to ensembles, where thousands of starts move at once (`metastable.flows.ensemble`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from metastable import observe
from metastable.comparison.comparing import ask, theory_claims
from metastable.core.numerics import jnp
from metastable.core.verdict import AGREE, DISAGREE, Verdict, settle
from metastable.flows import Trajectory
from metastable.observe import (
    amplitudes,
    attention_rows,
    clusters,
    effective_rank,
    kernel_modes,
    order_parameter,
    similarity,
)
from metastable.observe.summary import attention_of, energy_series

NUMBERS = ("float", "int", 'Float[Array, ""]')  # annotations of functions that give a number
DELTA = 1e-3  # two tokens are one when ⟨x,y⟩ ≥ 1 − δ, as in the published phase diagrams
HIGHEST = 40  # degree up to which the dominant harmonic is looked for
ERROR = "_error"  # ends the name of a standard error over samples
JUDGED, REFUTING = "_judged", "_refuted"  # of the counts of runs kept beside a claim of a user
ROWS = 256  # of attention, sampled in a cell
LONGEST = 120  # letters of a description on an axis, which is wrapped
LARGE = 0.1  # amplitude at which a harmonic has left the linear phase


@dataclass(frozen=True)
class Observable:
    """A number for each run, or for each frame of it.

    - `read(run)`: a number, or an array (T,) if `per_time`.
    - `ensemble(form, state)`: the same of one moment, for each sample; None where pairs of tokens
      do not suffice.
    - `at_start(measure, field)`: the same of a start that nothing has moved; None where it takes a
      run. Where all observables of a sweep have one, no cell is run.
    """

    name: str
    about: str
    read: Callable[[Trajectory], Any]
    per_time: bool = False
    ensemble: Callable[[Any, Any], Any] | None = None
    at_start: Callable[[Any, Any], Any] | None = None
    source: Any = None  # the function of a user
    is_claim: bool = False  # `read` gives one of the codes of `metastable.sweep.own`
    share: tuple[float, float] | None = None  # of runs in which a claim says that it holds


def observables_named(names: Any) -> tuple[Observable, ...]:
    """Observables by name; an unknown name is refused with the list of those there are."""
    known = OBSERVABLES | {name: one for name, one in _public().items() if name not in OBSERVABLES}
    if any(name not in known for name in names):
        from metastable.sweep.own import claims_by_name

        known = claims_by_name() | known
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"observables must be among {', '.join(known)}; got {unknown[0]!r}: choose "
            "one, or name the file that registers it with --plugin."
        )
    return tuple(known[name] for name in names)


def register_observable(
    function: Callable[..., Any], name: str = "", about: str = "", of: str = "frame"
) -> Any:
    """Let sweeps know a function of a measure (`of="frame"`) or of a trajectory (`of="run"`)."""
    name = name or function.__name__
    if of not in ("frame", "run"):
        raise ValueError(f'of must be "frame" or "run"; got {of!r}.')
    if name in OBSERVABLES and OBSERVABLES[name].source is not function:
        raise ValueError(f"{name!r} is already an observable: choose another name.")
    about = about or first_line(function, name)
    read = _each(function) if of == "frame" else function
    OBSERVABLES[name] = Observable(name, about, read, of == "frame", source=function)
    return function


_READ: list[Any] = [None, {}]  # the run read last, and what was found: page and figures ask


def read_own(run: Trajectory) -> dict[str, tuple[str, Any]]:
    """What a user's registered observables say of a run: description, and values or what failed.

    An array (T,) for one of frames, a number for one of runs, a string where it raised.
    """
    if _READ[0] is not run:
        _READ[:] = run, {}
    found = _READ[1]
    for name, one in OBSERVABLES.items():
        if name in OWN or name in found:
            continue
        try:
            value = np.asarray(one.read(run), float)
        except Exception as error:  # a function of a user, perhaps not meant for such a run
            value = f"not computed: {type(error).__name__}: {error}"
        found[name] = in_words(name, one.about)[1], value
    return {name: found[name] for name in OBSERVABLES if name in found}


@cache
def _public() -> dict[str, Observable]:
    """The functions of `metastable.observe` that take a measure alone and give a number."""
    public = {}
    for name in observe.__all__:
        function = getattr(observe, name)
        if not inspect.isfunction(function):
            continue
        signature = inspect.signature(function)
        needed = [p for p in signature.parameters.values() if p.default is p.empty]
        if len(needed) == 1 and signature.return_annotation in NUMBERS:
            public[name] = Observable(name, first_line(function, name), _each(function), True)
    return public


def in_words(name: str, about: str) -> tuple[str, str]:
    """An observable on an axis and in a caption, which says the name of one of a user too.

    >>> in_words("near_pairs", "share of pairs"), in_words("widest", "Largest angle")
    (('share of pairs', 'share of pairs'), ('Largest angle', 'Largest angle (widest)'))
    """
    words = name.replace("_", " ")
    label = about if 0 < len(about) <= LONGEST else words
    return label, (f"{about or words} ({name})" if is_own(name) else about or words)


def is_own(name: str) -> bool:
    """Whether an observable is a user's, and none of the library.

    >>> is_own("clusters"), is_own("widest")
    (False, True)
    """
    return name not in OWN and name not in observe.__all__


def first_line(function: Callable[..., Any], name: str) -> str:
    """The first line of a docstring, or words made of the name."""
    first = (function.__doc__ or "").strip().split("\n")[0].rstrip(".")
    return first or name.replace("_", " ")


def _each(function: Callable[[Any], Any]) -> Callable[[Trajectory], np.ndarray]:
    return lambda run: np.array([float(function(frame)) for frame in run.frames])


def _first_pair(run: Trajectory) -> np.ndarray:
    x = run.points[:, :2]
    x = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return (x[:, 0] * x[:, 1]).sum(-1) >= 1 - DELTA


def _beta(run: Trajectory) -> float | None:
    attention = attention_of(run.field)
    return None if attention is None else float(attention.beta)


def _energy(run: Trajectory) -> np.ndarray:
    series = energy_series(run)
    if series is None:
        raise ValueError("energy needs a single self-attention on the sphere; leave it out.")
    return series


def _kernel_count(run: Trajectory, k: int) -> int:
    beta = _beta(run)
    if not beta:
        raise ValueError("maxima of the potential need a single self-attention with beta > 0.")
    return kernel_modes(run.frames[k], beta).count


def _exit_frame(run: Trajectory) -> int:
    """The first frame in which some harmonic has an amplitude above 1/2, or the last frame."""
    for k, frame in enumerate(run.frames):
        if amplitudes(frame, highest_degree(run.frames[0].dim)).max() > 0.5:
            return k
    return len(run.frames) - 1


def highest_degree(dim: int) -> int:
    # Above S² each degree costs n² a frame; sixteen reach β = 100, where the fastest is √(2β).
    return HIGHEST if dim <= 3 else 16


def _dominant_mode(run: Trajectory) -> int:
    """The harmonic whose power has grown most when one leaves the linear phase.

    Growth since the start, not size: among forty degrees of a few hundred independent tokens one
    is often large by chance, and does not grow.
    """
    first = amplitudes(run.frames[0], highest_degree(run.frames[0].dim)) ** 2
    # Power 1/n each is the noise of n tokens: what has grown must stand out of it.
    enough = max(LARGE**2, 9 / run.frames[0].count)
    for frame in run.frames:
        grown = amplitudes(frame, highest_degree(run.frames[0].dim)) ** 2 - first
        if grown.max() > enough:
            break
    return int(grown.argmax()) + 1


def _lifetime(run: Trajectory) -> float:
    """Time at which two clusters of the start have come within half of their first distance."""
    gaps = np.array([_smallest_gap(np.asarray(frame.points)) for frame in run.frames])
    below = gaps <= gaps[0] / 2
    if not below.any():
        return float("inf")
    k = int(below.argmax())
    share = (gaps[k - 1] - gaps[0] / 2) / (gaps[k - 1] - gaps[k])
    return float(run.times[k - 1] + share * (run.times[k] - run.times[k - 1]))


def _smallest_gap(points: np.ndarray) -> float:
    cosines = np.clip(points @ points.T, -1, 1)
    np.fill_diagonal(cosines, -1)
    return float(np.arccos(cosines.max()))


def _late_order(run: Trajectory) -> float:
    """The mean over the second half of the frames, when a run with noise has settled."""
    frames = run.frames[len(run.frames) // 2 :]
    return float(np.mean([float(order_parameter(frame)) for frame in frames]))


_COMPARED: list[Any] = [None, ()]  # the run compared last, and its rows: two observables ask


def _rows(run: Trajectory) -> tuple[Verdict, ...]:
    """Of theory alone: claims of a user are counted each by itself."""
    if _COMPARED[0] is not run:
        _COMPARED[:] = run, settle(chain(*ask(run, theory_claims())))
    return _COMPARED[1]


_SAMPLED: list[Any] = [None, None]  # the start whose rows were sampled last, and their means


def sampled_rows(tokens: int) -> int:
    """How many rows stand for the attention of a cell: few enough to see different tokens."""
    return min(ROWS, max(tokens // 16, 2))


def _attention_rows(name: str) -> Callable[[Any, Any], float]:
    def at_start(measure: Any, field: Any) -> float:
        head = attention_of(field)
        if head is None or head.causal:
            raise ValueError("rows of attention need one self-attention without mask; leave out.")
        if _SAMPLED[0] is not measure:
            beta, rows = float(head.beta), sampled_rows(measure.count)
            sample = attention_rows(measure, beta, head.query, head.key, rows=rows)
            _SAMPLED[:] = measure, sample.mean
        return float(_SAMPLED[1][name])

    return at_start


def _pair_mean(values: Any) -> Any:
    """Mean over the pairs i ≠ j of each sample, of values (samples, n, n)."""
    n = values.shape[-1]
    return (values.sum((1, 2)) - jnp.trace(values, axis1=1, axis2=2)) / (n * (n - 1))


_PER_TIME = {
    "pair_probability": (f"P(⟨x_1,x_2⟩ ≥ 1 − {DELTA:g})", _first_pair),
    "near_pairs": (
        f"share of pairs with ⟨x_i,x_j⟩ ≥ 1 − {DELTA:g}",
        _each(lambda frame: similarity(frame, DELTA).near),
    ),
    "similarity": (
        "mean cosine of two different tokens",
        _each(lambda frame: similarity(frame).mean),
    ),
    "order": ("order parameter ‖Σ w x‖", _each(order_parameter)),
    "clusters": (
        "clusters by linkage",
        lambda run: np.array([clusters(frame, _beta(run)).count for frame in run.frames]),
    ),
    "energy": ("scaled interaction energy 2β exp(−β) E", _energy),
    "rank": ("effective rank", _each(effective_rank)),
}
_OF_ENSEMBLES = {
    "pair_probability": lambda form, y: form.pair(y) >= 1 - DELTA,
    "near_pairs": lambda form, y: _pair_mean(1.0 * (form.gram(y) >= 1 - DELTA)),
    "similarity": lambda form, y: _pair_mean(form.gram(y)),
    "order": lambda form, y: form.order(y),
}
_PER_RUN = {
    "first_clusters": (
        "maxima of the potential when a harmonic first exceeds 1/2",
        lambda run: _kernel_count(run, _exit_frame(run)),
    ),
    "last_clusters": (
        "clusters by linkage in the last frame",
        lambda run: clusters(run.frames[-1], _beta(run)).count,
    ),
    "dominant_mode": ("degree that leaves the linear phase first", _dominant_mode),
    "late_order": ("order parameter, mean of the second half", _late_order),
    "lifetime": ("time until two clusters of the start halve their distance", _lifetime),
    "agreements": (
        "claims of theory that agree with a run",
        lambda run: sum(row.verdict == AGREE for row in _rows(run)),
    ),
    # Yes or no: how many runs disagree cannot be told from a mean number of rows.
    "disagreements": (
        "share of runs on which a claim of theory disagrees",
        lambda run: any(row.verdict == DISAGREE for row in _rows(run)),
    ),
}
_AT_START = {
    "row_participation": ("Σw² of an attention row of the start", _attention_rows("participation")),
    "row_largest": ("largest weight of an attention row of the start", _attention_rows("largest")),
}
OBSERVABLES = {
    name: Observable(name, about, read, True, _OF_ENSEMBLES.get(name))
    for name, (about, read) in _PER_TIME.items()
} | {name: Observable(name, about, read) for name, (about, read) in _PER_RUN.items()}
OBSERVABLES |= {
    name: Observable(name, about, lambda run, see=see: see(run.frames[0], run.field), at_start=see)
    for name, (about, see) in _AT_START.items()
}
OWN = frozenset(OBSERVABLES)  # those of this module: a user's are added to the table later
