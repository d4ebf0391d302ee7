"""Dynamic metastability: clusters that live exponentially long, and what comes after.

Tokens that start in k caps of height ε far enough from each other ((β, ε)-separated) stay in caps
of height 2ε up to a time T_2, and from a time T_1 on those of one cap are within 2e^{−λβ} (squared
distance). T_1 ≤ 2n e^{8εβ} + e n λβ²/(β−1) and T_2 ≥ (ε/n)e^{(1−α)β}, α the largest inner product
between doubled caps. Afterwards clusters merge one pair at a time: in a rescaled clock the energy
2βe^{−β}E_β is a staircase whose steps are 2α_iα_j, and the motion goes from saddle to saddle.

It answers a problem of the perspective paper (valente2024 holds lectures on that one).
Read: the authors' public code, and a public formal transcription that states each theorem, lemma
and problem of version 1 and says where it departs from the text. The text itself was not read.
The flow here is SA unless a row says USA; the paper's USA has weights e^{β(⟨x,y⟩−1)}/n², so that
its clock is n e^β times ours. Constants hidden in Ω(1) and O(1/β) are not compared.
"""

TITLE = (
    "B. Geshkovski, H. Koubbi, Y. Polyanskiy, P. Rigollet, Dynamic metastability in the "
    "self-attention model, 2024, arXiv:2410.06833"
)
KEY = "geshkovski2024dynamic"
