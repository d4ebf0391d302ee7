"""The index of claims, one a line, in the order of their rows.

Each looks at a `Case` and answers with a row, or with None when it is not about such a run.
"""

from collections.abc import Callable as _Callable
from typing import Any as _Any

# isort: off
from metastable.comparison.motion import stays_on_sphere as stays_on_sphere
from metastable.comparison.motion import follows_field as follows_field
from metastable.comparison.motion import noise_strength as noise_strength
from metastable.comparison.motion import noise_drift as noise_drift
from metastable.comparison.motion import energy_monotone as energy_monotone
from metastable.comparison.motion import energy_identity as energy_identity
from metastable.comparison.motion import energy_bounds as energy_bounds
from metastable.comparison.motion import no_torque as no_torque
from metastable.comparison.exit import growth as growth
from metastable.comparison.exit import first_clusters as first_clusters
from metastable.comparison.exit import noise_threshold as noise_threshold
from metastable.comparison.exit import calm_amplitudes as calm_amplitudes
from metastable.comparison.exit import cluster_width as cluster_width
from metastable.comparison.ending import counts_fall as counts_fall
from metastable.comparison.ending import plateau_energy as plateau_energy
from metastable.comparison.ending import single_cluster as single_cluster
from metastable.comparison.consensus import contraction as contraction
from metastable.comparison.consensus import cluster_moves as cluster_moves
from metastable.comparison.consensus import leading_direction as leading_direction
from metastable.comparison.caps import cap_never_widens as cap_never_widens
from metastable.comparison.ending import equiangular_law as equiangular_law
from metastable.comparison.ending import pair_merges as pair_merges
from metastable.comparison.ending import causal_leader as causal_leader
from metastable.comparison.ending import renyi_centres_stay as renyi_centres_stay
from metastable.comparison.ending import repulsive_minimum as repulsive_minimum
from metastable.comparison.ending import nested_hulls as nested_hulls
from metastable.comparison.forces import first_drift as first_drift
from metastable.comparison.forces import radius_law as radius_law
from metastable.comparison.forces import cross_ratios as cross_ratios
from metastable.comparison.forces import mean_phase as mean_phase
from metastable.comparison.forces import tilted_energy as tilted_energy
from metastable.comparison.opinions import opinions_stay_inside as opinions_stay_inside
from metastable.comparison.opinions import opinion_energy as opinion_energy
from metastable.comparison.forces import coordinates_shrink as coordinates_shrink
from metastable.comparison.forces import tokens_part as tokens_part
from metastable.comparison.forces import first_token_alone as first_token_alone
from metastable.comparison.budgets import energy_budget as energy_budget
from metastable.comparison.budgets import centre_of_positions as centre_of_positions
from metastable.comparison.budgets import spread_budget as spread_budget
from metastable.comparison.budgets import three_hyperplanes as three_hyperplanes
from metastable.comparison.budgets import diameter_falls as diameter_falls
from metastable.comparison.budgets import merger_times as merger_times
from metastable.comparison.budgets import hardmax_events as hardmax_events
from metastable.comparison.random_depth import common_strength as common_strength
from metastable.comparison.random_depth import one_matrix_moves_all as one_matrix_moves_all
from metastable.comparison.random_depth import beta_of_random_head as beta_of_random_head
from metastable.comparison.random_depth import similarity_drift as similarity_drift
from metastable.comparison.random_depth import common_contraction as common_contraction
from metastable.comparison.random_depth import shape_freezes as shape_freezes
from metastable.comparison.positional import chain_leader_rests as chain_leader_rests
from metastable.comparison.positional import second_follows_first as second_follows_first
from metastable.comparison.positional import chain_ends_at_its_leader as chain_ends_at_its_leader
from metastable.comparison.sinks import first_token_and_sink as first_token_and_sink
from metastable.comparison.sinks import sink_leader as sink_leader
from metastable.comparison.moments import projective_ratios as projective_ratios
from metastable.comparison.moments import longest_axis_grows as longest_axis_grows
from metastable.comparison.moments import line_contracts as line_contracts
from metastable.comparison.state_space import leaders_move_alone as leaders_move_alone
from metastable.comparison.state_space import first_token_rests as first_token_rests
from metastable.comparison.state_space import ends_on_first_line as ends_on_first_line
from metastable.comparison.state_space import line_approached as line_approached
from metastable.comparison.networks import laplacian_decay as laplacian_decay
from metastable.comparison.networks import locked_state as locked_state
from metastable.comparison.networks import tree_locks as tree_locks
from metastable.comparison.networks import pulled_together as pulled_together
from metastable.comparison.densities import judge_density as judge_density
from metastable.comparison.gaussians import judge_gaussian as judge_gaussian

CLAIMS: list[_Callable[..., _Any]] = [
    value for name, value in list(vars().items()) if not name.startswith("_")
]
