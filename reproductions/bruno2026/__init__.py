"""One softmax row among n random keys on S^{d−1}: the scale of β at which it becomes selective.

The scale is β_n ≍ n^{2/(d−1)}, set by how near the nearest keys are. Far below it the output is a
local mean around the query, with an explicit bias and Gaussian fluctuations, and for V = I one
layer is a step of the backward heat equation. At it finitely many nearest keys keep mass; far above
it the nearest key has all.

Read: the abstract, and a public review that repeats the theorems in words. The limit laws used here
(a Poisson process of distances, `metastable.theory.window_law`) are derived here; the constants of
the paper were not seen and not compared. Tokens that are equiangular instead of independent have
the scale log n (chen2025critical).
"""

TITLE = "G. Bruno et al., Scaling limits of long-context transformers, 2026, arXiv:2605.08505"
KEY = "bruno2026scaling"
