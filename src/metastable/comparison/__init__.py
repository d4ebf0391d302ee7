"""Observation against prediction: the only place that hears both witnesses."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from metastable.comparison.case import Case
from metastable.comparison.citations import cite
from metastable.comparison.densities import judge_density
from metastable.comparison.gaussians import judge_gaussian
from metastable.comparison.prediction import Prediction, predict
from metastable.core.verdict import Comparison, Verdict, not_applicable
from metastable.flows import Trajectory
from metastable.measures import Density, Gaussian

__all__ = ["Comparison", "Prediction", "Verdict", "cite", "compare", "predict"]

# The index of claims: module of this package and function. Each looks at the case and answers with
# a row, or with None when it is not about such a run.
INDEX = """
motion.stays_on_sphere
motion.follows_field
motion.energy_monotone
motion.energy_identity
motion.energy_bounds
exit.growth
exit.growth_of_each
exit.leaves_uniform
exit.first_clusters
exit.noise_threshold
ending.counts_fall
ending.plateau_energy
ending.single_cluster
ending.contraction
ending.equiangular_law
ending.pair_merges
ending.causal_leader
ending.repulsive_minimum
ending.nested_hulls
"""


def _claim(place: str) -> Callable[[Case], Verdict | None]:
    module, name = place.split(".")
    return getattr(import_module(f"metastable.comparison.{module}"), name)


CLAIMS = [_claim(place) for place in INDEX.split()]


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
