"""Attention alone loses rank doubly exponentially in depth.

The output of stacked attention is a sum over paths, one head a layer. Without skip connections and
perceptrons it tends to a matrix of equal rows, and its distance from one is cubed in every layer;
skip connections stop that, since the path that skips every layer keeps the tokens apart, and
perceptrons slow it down. The flows of later papers are the residual limit, where collapse is slow.

Read: the abstract, the authors' public code, and reports that state the theorem.
"""

TITLE = "Y. Dong et al., Attention is not all you need, 2021, arXiv:2103.03404"
KEY = "dong2021attention"
