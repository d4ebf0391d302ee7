"""Tokens that never look at each other and still cluster, because one random matrix moves them all.

The random quadratic form dx = P_x ∘ dQ x, Q a symmetric matrix of Brownian motions: each token by
itself is a Brownian motion on the sphere, and all of them together end in two opposite points. So
clusters of a deep network need no attention; the linear layers suffice. With a bias of size γ the
opposite points are only metastable, and one point is left.

Read: the first page of arXiv:2603.06187, and the text of its sequel (A. Shalova, Random quadratic
form with random forcing, 2026), which quotes its theorems. Its clock: entries of Q off the
diagonal have variance 1, twice that of the symmetric part of W in `RandomValue`.
"""

TITLE = "A. Shalova, M. Engel, Random quadratic form on a sphere, 2026, arXiv:2603.06187"
KEY = "shalova2026random"
