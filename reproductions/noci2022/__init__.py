"""What rank collapse does to gradients, and residual branches scaled by 1/√L that prevent it.

At initialisation tokens align with depth unless residual branches shrink like 1/√L; then their
correlation has a limit below one however deep the network is. Where tokens are aligned, the
gradients of queries and keys vanish while that of values does not, so that nothing can be learnt
about whom to look at.

Read: the abstract and the introduction. Formulas are derived here.
"""

TITLE = "L. Noci et al., Signal propagation in transformers, 2022, arXiv:2206.03126"
KEY = "noci2022signal"
