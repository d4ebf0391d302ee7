"""When noise gives way to order in unnormalised attention: by degrees, or by a jump.

For V = I on S^{d−1} the free energy (1/κ)∫f log f − ½∬W df df, W = e^{βs}/β, has the uniform
density as its only minimiser up to the threshold of linear stability κ_# as long as
I_{d/2+1}(β)/I_{d/2}(β) ≤ 1/d; beyond that β_* it has lost the minimum before κ_# and order appears
by a jump. It brings the circle (arXiv:2604.16288, by the same authors) to every dimension, and is
the sharp form of what arXiv:2510.20094 and arXiv:2412.14813 say of bifurcations.

Read: the abstract, which states the theorem with its formulas, and a public review of the paper;
not the proofs. The paper's coupling K with diffusion ½Δ is κ = 2K here. Its intermediate
inequalities (Beckner–Onofri) were not compared.
"""

TITLE = (
    "K. Mun and M. Rosenzweig, Phase transitions for the noisy transformer model in arbitrary "
    "dimension, 2026, arXiv:2606.05140"
)
KEY = "mun2026phase"
