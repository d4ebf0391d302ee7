"""Transformers of many kinds as one equation for measures, and its Gaussian solutions.

The paper proves that the mean-field equation is well posed for softmax, L2, Sinkhorn, sigmoid,
masked and multi-head attention, and that the first three and their heads keep Gaussians, so that
mean m and covariance Σ obey ordinary differential equations: for softmax, with A = βKᵀQ,
ṁ = V(I + ΣA)m and Σ̇ = VΣAΣ + (VΣAΣ)ᵀ. Numerics show collapse, convergence and blow-up, and limits
of low rank. It is the ground of alcalde2026 and of the layers of ponti2025.

Read: the abstract, and the authors' public scripts (equations, matrices and figures of the
covariances). The proofs and the constants of the well-posedness were not read and not compared.
"""

TITLE = (
    "V. Castin et al., A unified perspective on the dynamics of deep transformers, 2025, "
    "arXiv:2501.18322"
)
KEY = "castin2025unified"
