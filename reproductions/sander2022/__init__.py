"""Attention whose matrix is scaled until rows and columns both sum to one.

Softmax is one step of Sinkhorn's algorithm; the paper takes it to its end. The attention matrix is
then doubly stochastic, and for QᵀK = V symmetric the layers are steps of a gradient flow in the
Wasserstein metric, which softmax's are not. With many tokens and scaled weights the flow becomes
heat diffusion. Castin2025 treats the same attention for Gaussians; the library's field is
`SinkhornAttention`, its clock "Sinkhorn".

Read: the abstract, and the authors' public code (scaling, number of steps). The proofs were not
read; energies and constants are derived here. Trained models were not run.
"""

TITLE = (
    "M. E. Sander et al., Sinkformers: Transformers with doubly stochastic attention, 2022, "
    "arXiv:2110.11773"
)
KEY = "sander2022sinkformers"
