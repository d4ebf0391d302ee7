"""Hardmax attention as a Frank–Wolfe step, and how long softmax follows it.

At β = ∞ a token x moves a step towards the token s that maximises ⟨Bx, s⟩, B = QᵀK: a step of
the method of Frank and Wolfe for ½⟨Bx, x⟩ over the hull of the tokens. For B ≥ 0 vertices rest,
cells of a Voronoi diagram are kept and tokens go straight to the vertex of their cell; for B ≤ 0
tokens contract. At finite β such states last for times exponential in β. It refines
geshkovski2023 (β = ∞ by the growth of e^{tV}); bungert2026 has the same limit on the sphere.

Read: the abstract in two versions (arXiv's first and that of the conference, which corrects it),
and the authors' scripts for cells. Theorems and their assumptions were not read. Two claims of the
first abstract fail here, a third needs an assumption that it leaves out.
"""

TITLE = "A. Alcalde et al., Attention's forward pass and Frank-Wolfe, 2025, arXiv:2508.09628"
KEY = "alcalde2025attention"
