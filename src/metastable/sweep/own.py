"""Claims of a user in a sweep: counted run by run, and told by their own names; or of all of it.

A registered claim is an observable too, by the name of its function. Where a sweep asks how many
rows agree or disagree with theory, the registered claims are kept beside them without being named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray
from scipy.stats import binom

from metastable.comparison.comparing import ask, own_claims
from metastable.core.verdict import (
    AGREE,
    DISAGREE,
    LEVEL,
    NOT_APPLICABLE,
    Verdict,
    decide,
    not_applicable,
    sampled,
    settle,
)
from metastable.flows import Trajectory
from metastable.sweep.observables import (
    ERROR,
    JUDGED,
    OBSERVABLES,
    REFUTING,
    Observable,
    first_line,
)
from metastable.sweep.rows import claim_of, observable_of, shown
from metastable.sweep.spec import Sweep
from metastable.sweep.words import located

# What a claim says of one run; NaN where it does not speak of it. Missed: by a row that allows for
# chance. Refuted: by one that does not.
HELD, MISSED, REFUTED = 1.0, 0.0, -1.0
ASKING = {"agreements", "disagreements"}  # observables beside which claims of a user are kept
SOURCE = "your claim"
OVERALL: list[Callable[..., Any]] = []  # claims about the means of a whole sweep
HOLDS, FAILS = "share of runs in which ", "fails in"


def claims_by_name() -> dict[str, Observable]:
    """The registered claims as observables, by the names of their functions."""
    found = {}
    for claim in own_claims():
        name = getattr(claim, "__name__", "claim")
        about = f"{HOLDS}“{first_line(claim, name)}”"
        read = partial(_read, claim)
        share = getattr(claim, "share", None)
        found[name] = Observable(name, about, read, source=claim, is_claim=True, share=share)
    return found


def with_own_claims(sweep: Sweep) -> Sweep:
    """The sweep with every registered claim among its observables, where it asks for verdicts."""
    if ASKING.isdisjoint(sweep.observables):
        return sweep
    claims = claims_by_name()
    if taken := OBSERVABLES.keys() & claims.keys():
        raise ValueError(f"{min(taken)!r} is an observable and a claim: rename one of them.")
    more = tuple(name for name in claims if name not in sweep.observables)
    return sweep.model_copy(update={"observables": (*sweep.observables, *more)})


def _read(claim: Callable[..., Any], run: Trajectory) -> float:
    rows = settle(ask(run, [claim])[0])
    against = [row for row in rows if row.verdict == DISAGREE]
    if against:
        return REFUTED if any(row.p is None for row in against) else MISSED
    return HELD if any(row.verdict == AGREE for row in rows) else np.nan


def tally(name: str, codes: Any) -> dict[str, np.ndarray]:
    """What is kept of a claim on the runs of a cell: the share that holds, and two counts.

    >>> {name: float(value) for name, value in tally("gap", [1.0, 1.0, 0.0, -1.0]).items()}
    {'gap': 0.5, 'gap_judged': 4.0, 'gap_refuted': 1.0}
    """
    codes = np.asarray(codes, float)
    judged, held = np.isfinite(codes).sum(), (codes == HELD).sum()
    share = held / judged if judged else np.nan
    counts = {name: share, name + JUDGED: judged, name + REFUTING: (codes == REFUTED).sum()}
    return {key: np.asarray(value, float) for key, value in counts.items()}


def claims_in(data: xarray.Dataset) -> list[str]:
    """The claims of a user in an opened sweep; their functions need not be here."""
    return [name for name in data.attrs["sweep"]["observables"] if name + JUDGED in data]


def counts_of(data: xarray.Dataset, name: str) -> tuple[xarray.DataArray, ...]:
    """For each cell, all repetitions together: runs that a claim judges, that fail, are refuted."""
    judged = data[name + JUDGED].where(data["done"]).fillna(0.0)
    failed = (judged * (1 - data[name].fillna(1.0))).round()
    refuted = data[name + REFUTING].where(data["done"]).fillna(0.0)
    total = lambda counts: counts.sum("repetition")
    return total(judged), total(failed), total(refuted)


def shares_of(data: xarray.Dataset, name: str) -> dict[str, xarray.DataArray]:
    """For each cell the share of runs in which a claim holds, its standard error, and the runs.

    The error of k of n is √(q(1 − q)/(n + 3)), q = (k + 1)/(n + 2): that of a share which was
    uniform before. It is not 0 where all runs are alike. Derived (Laplace's rule of succession).
    """
    judged, failed, _ = counts_of(data, name)
    share = (1 - failed / judged.where(judged > 0)).assign_attrs(data[name].attrs)
    likely = (judged - failed + 1) / (judged + 2)
    error = np.sqrt((likely * (1 - likely) / (judged + 3)).where(judged > 0).values)
    return {name: share, name + ERROR: share.copy(data=error), name + JUDGED: judged}


def judge_own(data: xarray.Dataset, name: str) -> Verdict:
    """The row of a claim: in how many runs it fails, and where most often.

    One run is enough against a claim whose rows do not allow for chance. Of rows that do, one run
    in a hundred may fail.
    """
    said, words = data[name].attrs.get("long_name", "").removeprefix(HOLDS), name.replace("_", " ")
    claim = claim_of(words if said == f"“{words}”" else said, name)
    judged, failed, refuted = counts_of(data, name)
    runs, wrong = int(judged.sum()), int(failed.sum())
    if not runs:
        return not_applicable(claim, SOURCE, "it does not speak of these runs")
    silent = int(data["done"].sum()) * data.attrs["sweep"]["samples"] - runs
    rest = f"; {silent} runs not judged" if silent else ""
    cells, (where, most) = int((judged > 0).sum()), _worst(judged, failed)
    reason = f"in all {cells} cells" if cells > 1 else f"at {where}"
    if wrong and cells > 1:
        reason = f"{FAILS} {int((failed > 0).sum())} of {cells} cells, most at {where}: {most}"
    observed = f"{runs - wrong} of {runs} runs"
    reason += rest
    if data[name].attrs.get("share"):
        told = f"it is about a share of runs, and holds in {observed}, {reason}"
        return not_applicable(claim, SOURCE, f"{told}; ms.ensemble tests it")
    if not wrong or int(refuted.sum()):
        allowed = "no run may fail"
        return decide(not wrong, claim, SOURCE, "every run", observed, allowed, reason)
    p = float(binom.sf(wrong - 1, runs, LEVEL))
    expected = f"{1 - LEVEL:.0%} of runs"
    return sampled(claim, SOURCE, expected, observed, p, None, reason)


def judge_overall(mean: xarray.Dataset) -> list[Verdict]:
    """The rows of the claims about means across cells; a claim that fails is told, not raised."""
    rows = []
    for claim in OVERALL:
        name = getattr(claim, "__name__", "claim")
        try:
            found = claim(mean)
            several = [found] if isinstance(found, Verdict) else list(found or [])
        except Exception as error:
            reason = f"it failed: {type(error).__name__}: {error}"
            several = [not_applicable(first_line(claim, name), SOURCE, reason)]
        rows += [dataclasses.replace(row, claim=claim_of(row.claim, name)) for row in several]
    return rows


def is_overall(row: Verdict, observables: Any) -> bool:
    """Whether a row of a sweep is about all of it: it names a function, and no observable."""
    return observable_of(row) not in {"", *observables}


def overall_in_words(row: Verdict) -> str:
    """A row of `judge_overall` as a sentence.

    >>> overall_in_words(Verdict("ratio of means (root)", "me", 2.0, 1.98, "", AGREE, error=0.04))
    'Your claim about the sweep, ratio of means (root): 1.98 observed, 2 ± 0.04 expected, agree'
    """
    about = f"Your claim about the sweep, {row.claim}"
    if row.verdict == NOT_APPLICABLE:
        return f"{about}, is not judged: {row.reason}"
    error = f" ± {row.error:.1g}" if row.error else ""
    expected = f"{shown(row.expected)}{error} expected"
    return f"{about}: {shown(row.observed)} observed, {expected}, {row.verdict}"


def _worst(judged: xarray.DataArray, failed: xarray.DataArray) -> tuple[str, str]:
    """The cell with the largest share of failures, among equal ones that with most runs."""
    share = (failed / judged.where(judged > 0)).fillna(-1.0).values
    at = max(np.ndindex(share.shape), key=lambda k: (share[k], judged.values[k]))
    places = (located(str(d), failed[d].values[k]) for d, k in zip(failed.dims, at, strict=True))
    return ", ".join(places), f"{int(failed.values[at])} of {int(judged.values[at])} runs"


def own_in_words(row: Verdict) -> str:
    """A row of `judge_own` as a sentence.

    >>> row = Verdict("“gaps stay open” (open)", SOURCE, "every run", "9 of 20 runs", "",
    ...               DISAGREE, "fails in 1 of 2 cells, most at β = 4: 11 of 12 runs")
    >>> print(own_in_words(row).replace("; ", ";\\n"))
    Your claim “gaps stay open” (open) holds in 9 of 20 runs;
    fails in 1 of 2 cells, most at β = 4: 11 of 12 runs
    """
    if row.verdict == NOT_APPLICABLE:
        return f"Your claim {row.claim} is not judged: {row.reason}"
    chance = f", as often as chance allows (p = {row.p:.2g})" if row.p is not None else ""
    chance = chance if row.verdict == AGREE else ""
    joint = ";" if row.reason.startswith(FAILS) else ","
    return f"Your claim {row.claim} holds in {row.observed}{chance}{joint} {row.reason}"
