"""One scale for the inverse temperature of a row, from how many logits lie near the largest.

N_n(g) counts the competitors within a gap g of the largest logit at β = 1. An upper-tail
accumulation scale is made of N_n; below it the top competitors stay together, above it the entropy
of the row collapses. Three known laws are three forms of N_n: (log n)^{1/2} for Gaussian scores,
log n for n tokens at one fixed gap, (log n)² for gaps of order 1/log n.

Read: the abstract only. The paper's definition of the scale was not seen: `accumulation_scale`,
max_g log N(g)/g, is our form of it, and no constant of the paper is compared.
"""

TITLE = "T. Hayase, R. Karakida, Critical scaling of inverse temperature, 2026, arXiv:2605.12697"
KEY = "hayase2026unified"
