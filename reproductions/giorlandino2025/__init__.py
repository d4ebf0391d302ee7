"""Two ways in which deep transformers fail at initialisation, and scales that avoid both.

Softmax of random logits is a random energy model: below a critical variance of queries and keys
rank collapses, above it attention freezes on few tokens (entropy collapse). Overlaps of tokens
through attention, norms, skips and perceptrons follow maps of two numbers, which give a diagram
of trainable scales.

Read: abstracts of three versions and the first pages. Formulas are derived here
(`theory.propagation`); constants of the paper are not compared.
"""

TITLE = "A. Giorlandino, S. Goldt, Two failure modes of deep transformers, 2025, arXiv:2505.24333"
KEY = "giorlandino2025two"
