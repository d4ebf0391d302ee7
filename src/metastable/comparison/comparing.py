"""All claims that speak of a run, asked in turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from metastable.core.verdict import Comparison, Verdict, not_applicable, settle
from metastable.flows import Hardmax, Trajectory
from metastable.measures import Points

if TYPE_CHECKING:
    from metastable.comparison.case import Case

Claim = Callable[..., Any]


def compare(run: Trajectory, claims: Iterable[Claim] = ()) -> Comparison:
    """Test every claim of the theory that speaks of a run like this one, and `claims` of yours.

    A claim is a function of a `Case` (the run is `case.run`) that gives a row, rows, or None where
    it has nothing to say; rows are made by `judge`, `decide`, `sampled` and `not_applicable` of
    `metastable.core.verdict`. Sampled rows of one page are judged together, so that an honest page
    carries a false "disagree" in 1 % of cases at most.

    >>> import metastable as ms
    >>> run = ms.flow(ms.orthogonal(tokens=4, dim=4), ms.SelfAttention(beta=2.0), horizon=5.0)
    >>> ms.compare(run).agrees
    True
    """
    if not isinstance(run, Trajectory):
        raise ValueError(
            f"run must be one Trajectory; got {type(run).__name__}: of several, compare each."
        )
    # What moved a run may bring claims of its own, as a captured transformer does.
    if hasattr(run.field, "make_case"):
        case, early, standing = run.field.make_case(run), None, run.field.claims
    else:
        from metastable.comparison.case import Case
        from metastable.comparison.claims import CLAIMS as standing

        case, early = Case(run), _before_mergers(run)
    rows: list[Verdict] = []
    for claim in (*standing, *claims):
        if isinstance(run.frames[0], getattr(claim, "measure", Points)):
            found = claim(case)
            if found is None and early is not None:
                found = claim(early)
            found = [found] if isinstance(found, Verdict) else list(found or ())
            if case.discrete and getattr(claim, "continuous", False):
                about = "a statement about continuous depth"
                found = [not_applicable(row.claim, row.source, about) for row in found]
            rows += found
    return Comparison(settle(rows), run.clock)


def _before_mergers(run: Trajectory) -> Case | None:
    """The frames of a run up to its first merger, for claims about one set of tokens."""
    if run.mergers is None or not len(run.mergers) or run.field is None:
        return None
    count = run.frames[0].count
    same = next(k for k, frame in enumerate(run.frames) if frame.count != count)
    if same < 2 or isinstance(run.stepper, Hardmax):
        return None
    logs = None if run.log_times is None else run.log_times[:same]
    from metastable.comparison.case import Case

    cut = {"times": run.times[:same], "frames": run.frames[:same], "log_times": logs}
    return Case(dataclasses.replace(run, mergers=None, **cut))
