"""How the first clusters come out of the uniform measure.

Tokens on the sphere under USA, β fixed, from independent uniform positions. The mean-field equation
is linearised at the uniform measure: on the circle mode k grows at a rate in proportion to
k²I_k(β), in higher dimension the coefficients are those of Gegenbauer polynomials. The mode k_max
that maximises it rules: in the limit of many tokens the solution stays near a manifold of
k_max-periodic states (an invariance under rotations by 2π/k_max), and clusters form at angles that
the starting phase of that mode foretells. β = 5 gives 3 clusters, β = 7 gives 4.

The thesis of the first author (bruno2024) covers the same ground; its entries are not repeated.
Read: abstract, a summary with the captions of a figure, and the authors' public notebook; the
theorems only through these. Their clock is that of USA with the plain mean 1/n, as ours.
"""

TITLE = (
    "G. Bruno, F. Pasqualotto, A. Agazzi, Emergence of meta-stable clustering in mean-field "
    "transformer models, 2024, arXiv:2410.23228"
)
KEY = "bruno2024emergence"
