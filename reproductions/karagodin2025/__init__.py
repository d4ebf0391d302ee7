"""Where the normalisation sits sets the speed of tokens, not the direction they are pulled in.

Each token is a radius times a direction, and directions obey θ̇_j = P A_j / s_j with the attention
output A_j; a scheme is a choice of s_j: 1 (Post), r_j (Pre), r_j‖A_j‖ (Peri), ‖A_j‖/α (nGPT), Post
then Pre (Mix), √(t+1) (depth scaling). Claims: the speed from orthogonal tokens is
(s_j^{−1} + s_k^{−1})/(e^β + n − 1); from random ones A_j is small, so that Peri and nGPT start
faster; and within a narrow cone the variance falls like Var' = −Θ(Var/s), exponentially for Post,
polynomially for Pre, Mix and Peri. `metastable.fields.Block` has all six.

Read: the abstract, public summaries, and a public formal transcription (in Lean) of the statements
that notes where they need another hypothesis. The table of constants was not seen as printed.
"""

TITLE = "N. Karagodin et al., Normalization in attention dynamics, 2025, arXiv:2510.22026"
KEY = "karagodin2025normalization"
