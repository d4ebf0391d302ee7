"""Stationary states of noisy mean-field equations on the circle, one Fourier coefficient at a time.

A density f = Σ a_k e^{ikθ}, a_0 = 1, rests under drift ∂(W∗f) and noise 1/κ exactly if
k a_k = κ Σ_j j w_j a_j a_{k−j}, w_j the coefficients of W: a quadratic system in place of
f ∝ e^{κW∗f}. From it follow where k-periodic states leave the uniform one, whether towards larger
or smaller κ, that the least free energy is not differentiable in the noise where the transition
is discontinuous, and, for attention, a wealth of states with several modes that live long at
large β. arXiv:2606.05140 makes the transition sharp in every dimension, arXiv:2412.14813 treats
the sphere.

Read: the abstract and public summaries; not the theorems. The formulas compared here for shapes
of branches were derived again from the quadratic system.
"""

TITLE = (
    "K. Balasubramanian, S. Banerjee and P. Rigollet, On the structure of stationary solutions to "
    "McKean-Vlasov equations with applications to noisy transformers, 2025, arXiv:2510.20094"
)
KEY = "balasubramanian2025structure"
