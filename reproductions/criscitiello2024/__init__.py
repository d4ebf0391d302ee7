"""When points on circles and spheres attract by any function of their inner product.

The flow is ẋ_i = P_{x_i}Σ_j w_j φ′(⟨x_i,x_j⟩)x_j, gradient ascent of Σφ(⟨x_i,x_j⟩); unnormalised
attention has φ(t) = e^{βt}/β. On spheres (d ≥ 3) an increasing convex φ is enough for one cluster
from almost every start. On the circle it is not: some such φ has other stable states for every
n ≥ 5. If the Taylor coefficients of φ′ decrease there is one cluster; so for e^{βt}, 0 < β ≤ 1,
which Polyanskiy, Rigollet and Yao later took to β ≥ −0.16.

Read: the abstract, the first page, and summaries that say what is constructed. The φ of the paper
was not seen: ours is a smooth ramp. Graphs other than the complete one are not tested.
"""

TITLE = (
    "C. Criscitiello et al., Synchronization on circles and spheres with nonlinear interactions, "
    "2024, arXiv:2405.18273"
)
KEY = "criscitiello2024synchronization"
