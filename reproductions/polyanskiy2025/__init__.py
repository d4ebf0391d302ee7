"""When n particles on the circle meet: a criterion by the third derivative of their force.

Particles move by θ̇_i = (1/n)Σ_j f(θ_j − θ_i), f odd. If f′ < 0 off [−τ, τ] and
τ∫(f‴)_+ ≤ 4(1 + τ/2π) f′(0), all of them meet from almost every start. For unnormalised attention,
f(x) = e^{β cos x} sin x, this gives one cluster for every β ≥ −0.16, which closes the circle's case
left between β ≤ 1 (Criscitiello and others) and β ≳ n²; below −2/3 it is false. Between −2/3 and
−0.16 nothing is said.

Read: the abstract, and a report and a public review that state the criterion. Not read: the proofs,
the statements for other weights and for the normalised flow beyond what summaries say.
"""

TITLE = (
    "Y. Polyanskiy et al., Synchronization of mean-field models on the circle, 2025, "
    "arXiv:2507.22857"
)
KEY = "polyanskiy2025synchronization"
