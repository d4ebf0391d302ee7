"""Attention with a causal mask as particles on the sphere: token k sees tokens 1 … k only.

Claims, with `SelfAttention(beta, causal=True)`: for V = I and any Q, K almost every start ends with
all tokens at x_1(0); before that, tokens far from all earlier ones (strong centres, at separation
δ = cβ^{−1/2}) hardly move for times e^{c²/2}, and their number is a parking count of order
β^{(d−1)/2}; for other V the end is conjectured to be set by the largest eigenvalue of V alone.
There is no gradient flow of one energy, but tokens can be studied one after the other.

Read: the abstract, a public reading note that goes through the whole text, and a public formal
transcription of its statements (in Lean) that notes misprints; the paper itself was not at hand.
"""

TITLE = "N. Karagodin et al., Clustering in causal attention masking, 2024, arXiv:2411.04990"
KEY = "karagodin2024clustering"
