"""Gaussians under attention and affine feed-forward layers as a control system.

Mean and covariance obey a bilinear control system; the covariance alone a Riccati equation,
Σ̇ = WΣ + ΣWᵀ + VΣAΣ + ΣAᵀΣVᵀ with A = βKᵀQ and W of the feed-forward layer. The rank of Σ never
changes. With weights that may change in time every Gaussian of equal rank is reached exactly; with
constant ones spectral conditions give a positive definite equilibrium, or a blow-up in finite time.
It goes on from castin2025, whose closed form for V = I is the Riccati equation without W.

Read: the abstract, and summaries of the paper. Its spectral conditions were not seen; those tested
here are derived. Its experiments with trained transformers are not reproduced.
"""

TITLE = (
    "A. Alcalde, Z. Ji, E. Zuazua, Reachability and asymptotics of Gaussian Transformer dynamics, "
    "2026, arXiv:2606.07600"
)
KEY = "alcalde2026reachability"
