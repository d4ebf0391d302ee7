"""Papers on what transformers at random weights do to tokens, layer by layer.

Dong, Cordonnier and Loukas, arXiv:2103.03404 (rank collapse of pure attention); Giorlandino and
Goldt, arXiv:2505.24333 (overlap maps, softmax as a random energy model). Of both the abstracts were
at hand and not the full texts: claims are quoted from abstracts, formulas are derived in
`metastable.theory`, and constants of the papers are not compared.
"""

TITLE = "Signal propagation in transformers at random weights, arXiv:2103.03404, arXiv:2505.24333"
