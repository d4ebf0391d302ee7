"""How fast a density of tokens becomes one point.

For the flow of densities on the sphere with small β: a start in L² whose mean is not zero tends to
a point mass, W_2(μ_t, δ) ≤ Ce^{−t/100}, by an inequality of Polyak–Łojasiewicz type around the flow
of Kuramoto (β = 0). Every stationary measure but a point mass is unstable; at large β, though, the
limit of a density may have several clusters. A density is not many tokens: some of it always stands
opposite the final point, and leaves last.

Read: the abstract, and reports and summaries that state the bound and the case of large β. The
constants of the proof and the paper's own counterexample were not seen; ours is a symmetric one.
"""

TITLE = (
    "S. Chen et al., Quantitative clustering in mean-field transformer models, 2025, "
    "arXiv:2504.14697"
)
KEY = "chen2025quantitative"
