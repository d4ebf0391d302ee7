"""The index of claims, one a line, in the order of their rows.

Each looks at a `Case` and answers with a row, or with None when it is not about such a run.
"""

from collections.abc import Callable as _Callable
from typing import Any as _Any

# isort: off
from metastable.comparison.motion import stays_on_sphere as stays_on_sphere
from metastable.comparison.motion import follows_field as follows_field
from metastable.comparison.motion import energy_monotone as energy_monotone
from metastable.comparison.motion import energy_identity as energy_identity
from metastable.comparison.motion import energy_bounds as energy_bounds
from metastable.comparison.exit import growth as growth
from metastable.comparison.exit import growth_of_each as growth_of_each
from metastable.comparison.exit import leaves_uniform as leaves_uniform
from metastable.comparison.exit import first_clusters as first_clusters
from metastable.comparison.exit import noise_threshold as noise_threshold
from metastable.comparison.ending import counts_fall as counts_fall
from metastable.comparison.ending import plateau_energy as plateau_energy
from metastable.comparison.ending import single_cluster as single_cluster
from metastable.comparison.ending import contraction as contraction
from metastable.comparison.ending import equiangular_law as equiangular_law
from metastable.comparison.ending import pair_merges as pair_merges
from metastable.comparison.ending import causal_leader as causal_leader
from metastable.comparison.ending import repulsive_minimum as repulsive_minimum
from metastable.comparison.ending import nested_hulls as nested_hulls

CLAIMS: list[_Callable[..., _Any]] = [
    value for name, value in list(vars().items()) if not name.startswith("_")
]
