"""How an observable of a sweep depends on each axis, in plain words made from the numbers."""

from __future__ import annotations

import re

import numpy as np
import xarray

from metastable.sweep.profiles import HARDLY, LEVEL, Profile, profiles
from metastable.sweep.words import located, name_of, rounded


def dependence(
    values: xarray.DataArray, errors: xarray.DataArray, runs: int, tied: bool = False
) -> str:
    """What to say behind an observable's name, such as "falls from 12 at β = 1 to 4 at β = 9".

    - `values`, `errors`: means over samples and repetitions, with standard errors; NaN where they
      are unknown or not done.
    - `runs`: how many stand behind each of them.
    - `tied`: cells share random numbers, so that their errors do not average out.

    Along an axis the other axes are averaged over. Whether the means differ at all is asked of
    their errors (`chance`): of diagrams of noise alone, `LEVEL` at most are said to depend on
    anything. Where they do not, that shows no more than a bound: the words give the mean and the
    largest difference that the errors leave open. Where they differ the words say how much, and
    whether some other axis turns the direction round. Verbs stand between braces, singular and
    plural: `say` chooses.
    """
    if not np.isfinite(values.values).any():
        return "{has|have} no value yet"
    axes = sorted(profiles(values, errors, runs, tied), key=lambda a: (a.dim == "time", -a.span))
    if not axes:
        at = np.unravel_index(np.nanargmax(values.values), values.shape)
        where = ", ".join(
            located(str(dim), values[dim].values[k]) for dim, k in zip(values.dims, at, strict=True)
        )
        return (
            f"{{is|are}} {rounded(float(values.values[at]), float(errors.values[at]))} at {where}"
        )
    moved = [axis for axis in axes if axis.p < LEVEL / len(axes) or axis.turns]
    most = max((axis.span for axis in moved if axis.dim != "time"), default=0.0)
    clauses = [_clause(axis, most) for axis in moved]
    rest = [axis for axis in axes if axis not in moved]
    clauses += [_still(rest, not moved)] if rest else []
    *first, last = clauses
    plain = not any("," in clause for clause in clauses)
    text = f"{', '.join(first)} and {last}" if first and plain else "; ".join(clauses)
    alone = not np.isfinite(errors.values).any()
    return f"{text}; one run a cell, no errors known" if alone else text


def say(name: str, about: str, text: str) -> str:
    """A sentence with an observable's name, what it is if the name does not tell, and `dependence`.

    >>> say("near_pairs", "share of pairs", "{falls|fall} from 2 to 1")
    'Near pairs (share of pairs) fall from 2 to 1'
    >>> say("widest", "", "{is|are} 2")
    'Widest is 2'
    """
    words = name.replace("_", " ").strip()
    plural = words.endswith("s") and not words.endswith(("ss", "us", "is"))
    text = re.sub(r"\{(\w+)\|(\w+)\}", lambda verb: verb[1 + plural], text)
    known = not about or words in about.lower() or about.lower() in words
    about = f"“{about}”" if about[:1].isupper() else about
    subject = words if known else f"{words} ({about})"
    return f"{subject[:1].upper()}{subject[1:]} {text}"


def _still(axes: list[Profile], alone: bool) -> str:
    """Axes along which the means are alike as far as their errors tell, and how far that is.

    `alone`: there is no other axis, so that the mean over these is that of all cells.
    """
    value, error = axes[0].whole
    over = " and ".join(_places(axis) for axis in axes)
    verb = "{is|are}" if alone else "{averages|average}"
    differs = lambda axis: axis.span > 1e-12 * abs(value) or np.nan_to_num(axis.errors).any()
    if not any(map(differs, axes)):
        return f"{verb} {rounded(value)} over {over}"
    along = lambda axis: f" along {name_of(axis.dim)}" if len(axes) > 1 else ""
    each = [f"{axis.left_open:.2g}{along(axis)}" for axis in axes]
    apart = f" (differences up to {' and '.join(each)} are not excluded)"
    known = all(np.isfinite(axis.left_open) for axis in axes)
    return f"{verb} within errors {rounded(value, error)} over {over}{apart if known else ''}"


def _places(axis: Profile) -> str:
    """All places of an axis: "all β from 1 to 9", "every start"."""
    if axis.places.dtype.kind not in "if":
        return f"every {name_of(axis.dim)}"
    low, high = float(axis.places.min()), float(axis.places.max())
    return f"all {name_of(axis.dim)} from {low:.4g} to {high:.4g}"


def _clause(axis: Profile, most: float) -> str:
    return _course(axis, most) + (f", with no value at {axis.missing}" if axis.missing else "")


def _course(axis: Profile, most: float) -> str:
    """What the means do along an axis; `most` is the largest difference along any."""
    name, m, e = name_of(axis.dim), axis.means.tolist(), axis.errors.tolist()
    at = lambda k: f"{rounded(m[k], e[k])} at {located(axis.dim, axis.places[k])}"
    low, high, last = int(np.argmin(m)), int(np.argmax(m)), len(m) - 1
    if axis.turns:
        return f"{{depends|depend}} on {name} in both directions, {axis.turns}"
    if axis.span < HARDLY * most:
        return f"hardly {{depends|depend}} on {name} (at most {axis.span:.2g} apart)"
    if axis.places.dtype.kind not in "if":
        return f"{{is|are}} highest, {at(high)}, and lowest, {at(low)}"
    room = lambda j, k: max(HARDLY * axis.span, 2 * float(np.nan_to_num(np.hypot(e[j], e[k]))))
    near = lambda j, k: abs(m[j] - m[k]) <= room(j, k)
    if near(0, low) and near(last, high) and low < high:
        return f"{{rises|rise}} from {at(0)} to {at(last)}"
    if near(0, high) and near(last, low) and high < low:
        return f"{{falls|fall}} from {at(0)} to {at(last)}"
    if 0 < high < last and (near(0, low) or near(last, low) or not 0 < low < last):
        return f"{{rises|rise}} from {at(0)} to {at(high)}, then {{falls|fall}} to {at(last)}"
    if 0 < low < last and (near(0, high) or near(last, high) or not 0 < high < last):
        return f"{{falls|fall}} from {at(0)} to {at(low)}, then {{rises|rise}} to {at(last)}"
    return f"{{goes|go}} up and down along {name}, lowest {at(low)}, highest {at(high)}"
