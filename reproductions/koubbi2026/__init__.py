"""Attention with many heads whose weights are drawn anew in every layer and head.

Scalings of depth, residual step η and number of heads H have a limit: deterministic, or a
stochastic flow whose noise all tokens share. For Gaussian weights the drift of the limit vanishes,
and collapse of tokens becomes explicit: trade-offs of dimension, context length and temperature.

Read: the abstract and summaries of the paper. Formulas are derived here (`theory.random_depth`).
"""

TITLE = "H. Koubbi et al., Homogenized transformers, 2026, arXiv:2604.01978"
KEY = "koubbi2026homogenized"
