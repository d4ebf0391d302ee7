"""Where tokens may rest when the value matrix is not the identity.

With V symmetric, of a simple largest eigenvalue, attention on the sphere is read as many copies of
Oja's flow, which finds principal eigenvectors. Resting states of one head fall into four classes:
consensus, bipartite consensus (two opposite groups), clustering, polygons. States of the first
three can be stable at once, so that the start decides; those of the first two lie on eigenvectors
of V, often, but not always, the principal one. In most of this atlas V = I, and one cluster is the
rule.

Read: the abstract, the beginning of the paper, and reports that state its assumptions and classes.
The stability conditions below are derived here in closed form and may differ in form from the
paper's, whose theorems and figures were not seen.
"""

TITLE = (
    "C. Altafini, Multistability of self-attention dynamics in transformers, 2025, arXiv:2511.11553"
)
KEY = "altafini2025multistability"
