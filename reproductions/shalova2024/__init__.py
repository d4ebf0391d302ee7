"""Stationary states of interacting diffusions on spheres: where they branch off, and how.

On S^{d−1} with a rotation-invariant potential W the uniform density always rests. It is alone for
small coupling; axially symmetric states branch off at κ_ℓ = 1/ŵ_ℓ, ŵ_ℓ > 0 the spherical
coefficient of W of degree ℓ, for attention κ_ℓ = β/c_ℓ; resonances of two coefficients make the
transition discontinuous. Examples: noisy transformers, Onsager's liquid crystals, opinions. The
sharp order of the transition for attention came later (arXiv:2606.05140).

Read: the abstract, the opening of the paper and a public summary; not the theorems. Its constants
for uniqueness (from curvature) and its criterion for resonance were not seen: ours stand here.
"""

TITLE = (
    "A. Shalova and A. Schlichting, Solutions of stationary McKean-Vlasov equation on a "
    "high-dimensional sphere and other Riemannian manifolds, 2024, arXiv:2412.14813"
)
KEY = "shalova2024solutions"
