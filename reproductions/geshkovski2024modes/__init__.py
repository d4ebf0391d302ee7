"""How many modes a Gaussian kernel density estimate of n normal samples has.

For the kernel e^{−β(t−x)²/2} and n^c ≲ β ≲ n^{2−c} the expected number over the whole line is
Θ(√(β log β)), and almost all modes lie in the belts 2 log n − 3 log β ≤ t² ≤ 2 log n − log β:
nearer to 0 the estimate is too smooth, beyond there are no samples left. The motive is the number
of clusters of a metastable state: the potential Σ_j w_j e^{β⟨x,x_j⟩} of tokens is such an estimate.

Read: abstract and introduction, and a public formal transcription (in Lean) of the statements with
notes on hypotheses. Proofs were not read; constants in Θ are not given by the paper, and those here
come from the Kac–Rice integral with exact moments.
"""

TITLE = "B. Geshkovski et al., Modes of Gaussian kernel density estimators, 2024, arXiv:2412.09080"
KEY = "geshkovski2024modes"
