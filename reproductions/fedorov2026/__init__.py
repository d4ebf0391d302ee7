"""Deep transformers whose value matrices are drawn at random in every layer.

With steps of diffusive size and a root-mean-square norm, layers tend to tokens on the sphere that
one common matrix of Brownian motions drives. For two tokens there is a transition in β and the
dimension: opposite tokens attract with positive probability, which no deterministic flow shows.

Read: the abstract and the first page. Constants are derived here (`theory.random_depth`), in the
clock ε² a layer; those of the paper were not seen and are not compared.
"""

TITLE = "L. Fedorov et al., Clustering in deep stochastic transformers, 2026, arXiv:2601.21942"
KEY = "fedorov2026clustering"
