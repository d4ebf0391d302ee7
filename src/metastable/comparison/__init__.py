"""Observation against prediction: the only place that hears both witnesses."""

from __future__ import annotations

from metastable.comparison.case import Case
from metastable.comparison.citations import cite
from metastable.comparison.claims import CLAIMS
from metastable.comparison.densities import judge_density
from metastable.comparison.gaussians import judge_gaussian
from metastable.comparison.prediction import Prediction, predict
from metastable.core.verdict import Comparison, Verdict, not_applicable
from metastable.flows import Trajectory
from metastable.measures import Density, Gaussian

__all__ = ["Comparison", "Prediction", "Verdict", "cite", "compare", "predict"]


def compare(run: Trajectory) -> Comparison:
    """Test every claim of the theory that speaks of a run like this one.

    >>> import metastable as ms
    >>> run = ms.flow(ms.orthogonal(tokens=4, dim=4), ms.SelfAttention(beta=2.0), horizon=5.0)
    >>> ms.compare(run).agrees
    True
    """
    if isinstance(run.frames[0], Density):
        return Comparison(judge_density(run), run.clock)
    if isinstance(run.frames[0], Gaussian):
        return Comparison(judge_gaussian(run), run.clock)
    case = Case(run)
    rows = []
    for claim in CLAIMS:
        row = claim(case)
        if row is not None and case.discrete and getattr(claim, "continuous", False):
            row = not_applicable(row.claim, row.source, "a statement about continuous depth")
        if row is not None:
            rows.append(row)
    return Comparison(tuple(rows), run.clock)
