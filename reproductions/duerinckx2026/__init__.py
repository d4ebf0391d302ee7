"""Causal attention with ALiBi as particles on the circle: which tokens the last one remembers.

Each token is pulled by earlier ones with weights that depend on position alone. In the limit of
many tokens correlations of order 1/N solve a linear Volterra equation in position, in closed form
by a Bessel function; the retrieval of a source by the last token is U-shaped in its position while
t sup a_n ≤ min(3 − √3, 2(1 − e^{−λ})), a_n = n² I_n(β). Model and constants stand in
`metastable.fields.PositionalAttention` and `metastable.theory.retrieval`.

Read: the abstract, the authors' public code (Python, standard library), and a public formal
transcription of the paper's statements. Proofs were not read; the closed form is derived again
here. The paper's clock (force βe^{β cos}sin) runs β times as fast as USA, and has a_n = n² I_n(β).
"""

TITLE = "M. Duerinckx et al., Kinetic theory for Transformers, 2026, arXiv:2605.09213"
KEY = "duerinckx2026kinetic"
