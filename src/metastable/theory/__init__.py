"""What we expect: every closed form in one flat index, `ms.theory.growth_rates(...)`."""

from __future__ import annotations

from metastable.core.lazy import lazy

# Module → its public names; a test holds this table and the modules together.
_HOMES = {
    "bessel": (
        "bessel_ratio inverse_bessel_ratio log_bessel log_bessel_ratio log_far_ratio "
        "log_reduced_bessel"
    ),
    "branches": (
        "Branch Transition branch_in_beta branch_in_kappa first_bend phase_diagram transition "
        "unique_kappa"
    ),
    "causal": (
        "cap_measure greedy_centres log_persistence_time parking_density renyi_constant "
        "separation strong_centres"
    ),
    "configurations": (
        "Configuration cell24 cell600 clebsch configuration_energy cross_polytope cube "
        "design_strength e7_points e8_roots energy_lower_bound icosahedron regular_polygon "
        "scaled_energy scaled_energy_lower_bound schlafli sharp_configuration regular_simplex"
    ),
    "context": (
        "RowLaw WindowLaw accumulation_scale cap_constant context_regime critical_beta "
        "critical_scaling expected_gap_count layer_correlation row_law window_law"
    ),
    "counts": (
        "CountDistribution count_distribution expected_count fewest_tokens predicted_angles "
        "too_few total_variation"
    ),
    "discretization": "euler_error_bound velocity_bound velocity_lipschitz",
    "equiangular": (
        "ConcentrationBound concentration_bound equiangular_cosine equiangular_rate "
        "log_phase_curve log_time_integral phase_curve sink_cosine"
    ),
    "fits": "MatrixFit fit_matrix fit_scale kolmogorov_distance outliers",
    "gaussian": (
        "SampleError blow_up_time collapsed_shape covariance_at effective_tokens "
        "limit_covariance limit_rank logit_variance longest_truncated_step mean_at sample_error"
    ),
    "grenier": "Expansion expand",
    "hemisphere": "log_wendel_probability wendel_exact wendel_probability",
    "interaction": (
        "Interaction ZonalGrid attention_interaction laplacian zonal_grid zonal_harmonics "
        "zonal_potential zonal_slopes"
    ),
    "limits": (
        "LimitGeometry attention_rank_bound boolean_limit collapse_projection limit_geometry "
        "polytope_residual"
    ),
    "matrices": "FussCatalan Law MarchenkoPastur QuarterCircle Semicircle outlier_location",
    "metastability": (
        "MetastabilityBounds cross_alignment merger_jump metastability_bounds plateau_level "
        "separation_margin smooth_density_rate"
    ),
    "moments": "axial_order follower_angle image_flow image_moments projective_ratios",
    "networks": (
        "graph_laplacian is_connected locked_order locking_coupling spectral_gap tree_coupling"
    ),
    "noise": (
        "critical_kappa fastest_mode_with_noise log_critical_kappa transition_order "
        "tricritical_beta"
    ),
    "normalization": "ClusteringLaw SCHEMES clustering_law",
    "pairs": "closing_speed log_merge_time merge_time",
    "perturbation": (
        "balanced_strength forced_growth perturbed_rates pinning_strength rate_shift "
        "tearing_strength"
    ),
    "propagation": (
        "Propagation RandomBlock attention_map finite_width gradient_norms perceptron_map "
        "perceptron_slopes propagate through_block"
    ),
    "random_depth": (
        "CosineGenerator PairDiffusion antipodal_beta cosine_generator energy_drift "
        "group_exponent moment_exponent"
    ),
    "regimes": "ClusterTheorem single_cluster_theorem convex_cluster_theorem",
    "retrieval": "critical_retrieval_time least_retrieved retrieval_law retrieval_row",
    "ring": "internal_contraction log_plateau_lifetime plateau_lifetime ring_rates",
    "smoothness": "ChaosRate mean_field_lipschitz propagation_of_chaos token_lipschitz",
    "softmax": "frozen_share gauss overlap_table softmax_overlaps softmax_spread",
    "spectrum": (
        "FAR dominant_mode exit_time gegenbauer_quadrature growth_rates log_exit_time "
        "log_growth_rates log_rates_at max_rate multihead_rates potential_rates switch_points"
    ),
    "stationary": "MOST_NODES Stationary defect fewest_nodes is_thin scale stationary_density",
    "trainability": (
        "Collapse Trainability collapse correlation_depth fixed_point residual_scale_for_depth "
        "trainability_diagram"
    ),
    "waves": "expected_maxima maxima_variance",
}
__getattr__, __dir__, _names = lazy("metastable.theory", _HOMES)
__all__ = _names  # pyright: ignore[reportUnsupportedDunderAll]
