"""Tokens on the sphere as interacting particles: the paper that set up the model.

It writes attention with layer normalisation as ẋ_i = P_{x_i}Σ_j A_ij Vx_j, reads it as a flow of
measures with the energy E_β = (1/2β)∬e^{β⟨x,y⟩}, and proves one cluster in the end: at β = 0, for
β ≲ 1/n, for β ≳ (d−1)n², for d ≥ 3, and from a hemisphere (so for d ≥ n) exponentially fast with
any Q, K when V = I. For d ≫ n all pairs of tokens share one cosine γ_β(t). What stays open in it:
long-lived clusters, other matrices, doubly stochastic attention.

Read: the authors' public scripts, the statements as a public formal version and a public study of
the paper quote them (lemmas, constants and numbers of theorems), the first page. Not read: the
proofs. The theorems that seminar slides quote have entries in `valente2024`; they are not repeated.
"""

TITLE = "B. Geshkovski et al., A mathematical perspective on transformers, 2023, arXiv:2312.10794"
KEY = "geshkovski2023mathematical"
