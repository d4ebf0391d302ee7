"""Which measures have most and least energy when a matrix D weighs the inner product.

The energy ∬e^{β⟨x,Dy⟩}dμdμ on the sphere is climbed by attention with QᵀK = V = D and descended
with V = −D: unnormalised attention is its Wasserstein gradient flow, softmax attention its
gradient flow for a metric with a mobility. Its extremes depend on the spectrum of D: point masses
on top eigenvectors, antipodal pairs on the most negative one, measures on the kernel, smooth
densities.
D = I is in Geshkovski et al. (arXiv:2312.10794).

Read: the authors' public code (figure scripts, and the data files they left, β = 1) and the
abstract; not the proofs. The paper's 1/n steps are our unnormalised clock.
"""

TITLE = (
    "M. Burger, S. Kabri, Y. Korolev, T. Roith and L. Weigand, Analysis of mean-field models "
    "arising from self-attention dynamics in transformer architectures with layer normalization, "
    "2025, arXiv:2501.03096"
)
KEY = "burger2025analysis"
