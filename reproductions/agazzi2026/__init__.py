"""Deep transformers with random perceptrons: a stochastic limit, and synchronisation by its noise.

Layers with attention and random perceptrons tend to tokens with a common noise; the law of a token
solves a stochastic equation. Tokens synchronise, and the energy of interaction is dissipated on
average, if the noise is coercive enough against the drift, which depends on the activation.

Read: the abstract and the first page. The two-point motion for an activation is derived here.
"""

TITLE = "A. Agazzi et al., Stochastic scaling limits and synchronization by noise, arXiv:2604.26898"
KEY = "agazzi2026stochastic"
