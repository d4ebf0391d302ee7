"""All claims that speak of a run, asked in turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from metastable.core import checks
from metastable.core.verdict import Comparison, Verdict, not_applicable, settle
from metastable.flows import Hardmax, Trajectory
from metastable.measures import Points

if TYPE_CHECKING:
    from metastable.comparison.case import Case

Claim = Callable[..., Any]


def compare(run: Trajectory, claims: Iterable[Claim] = ()) -> Comparison:
    """Test every claim of the theory that speaks of a run like this one, and `claims` of yours.

    A claim is a function of a `Case` (the run is `case.run`) that gives a row, rows, or None where
    it has nothing to say; rows are made by `judge` (within a tolerance of what is expected),
    `decide` (whatever you test, such as "at most"), `sampled` and `not_applicable` of
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
    own = listed(claims)
    # What moved a run may bring claims of its own, as a captured transformer does.
    if hasattr(run.field, "make_case"):
        standing = run.field.claims
    else:
        from metastable.comparison.claims import CLAIMS as standing
    every, rows = [*standing, *own], []
    for claim, found in zip(every, ask(run, every), strict=True):
        if getattr(claim, "share", None) is not None:
            why = "a statement about a share of many starts, which ms.ensemble tests"
            found = [not_applicable(row.claim, row.source, why) for row in found]
        rows += found
    return Comparison(settle(rows), run.clock)


def own_claims() -> list[Claim]:
    """Claims that a user has registered, in order; the others are those of theory."""
    from metastable.comparison import claims

    return [claim for claim in claims.CLAIMS if not _is_ours(claim)]


def theory_claims() -> list[Claim]:
    """The claims that every run is held against, those of a user aside."""
    from metastable.comparison import claims

    return [claim for claim in claims.CLAIMS if _is_ours(claim)]


def _is_ours(claim: Claim) -> bool:
    from metastable.comparison import claims

    return vars(claims).get(getattr(claim, "__name__", "")) is claim


def listed(claims: Any) -> list[Claim]:
    """Claims of a user, refused where they are no functions."""
    if callable(claims) or not isinstance(claims, Iterable):
        raise ValueError("claims must be a list of functions of a case: claims=[my_claim].")
    return [
        checks.function(f"claims[{k}]", claim, "a function of a case")
        for k, claim in enumerate(claims)
    ]


def ask(run: Trajectory, claims: Iterable[Claim]) -> list[list[Verdict]]:
    """What each claim says of a run, sampled rows not yet judged together."""
    if hasattr(run.field, "make_case"):
        case, early = run.field.make_case(run), None
    else:
        from metastable.comparison.case import Case

        case, early = Case(run), _before_mergers(run)
    answers: list[list[Verdict]] = []
    for claim in claims:
        answers.append([])
        if isinstance(run.frames[0], getattr(claim, "measure", Points)):
            found = claim(case)
            if found is None and early is not None:
                found = claim(early)
            rows = _rows(claim, found)
            if case.discrete and getattr(claim, "continuous", False):
                about = "a statement about continuous depth"
                rows = [not_applicable(row.claim, row.source, about) for row in rows]
            answers[-1] = rows
    return answers


def _rows(claim: Claim, found: Any) -> list[Verdict]:
    rows = [found] if isinstance(found, Verdict) else [] if found is None else found
    if isinstance(rows, Iterable) and not isinstance(rows, str):
        rows = list(rows)
        if all(isinstance(row, Verdict) for row in rows):
            return rows
    raise ValueError(
        f"the claim {getattr(claim, '__name__', claim)!r} must give a row, rows or None; got "
        f"{type(found).__name__}: return what judge or decide of metastable.core.verdict makes."
    )


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
