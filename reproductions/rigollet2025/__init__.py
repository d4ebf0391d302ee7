"""A survey: attention as interacting particles, from one layer to the mean field.

The velocity is that of our SA and USA; noise enters as √(2/κ)dW. The survey collects: gradient
flows and the link to Kuramoto oscillators (β = 0) and to mean-shift clustering; one cluster in the
end, for tokens (d ≥ 3, almost every start) and for densities; metastable clusters, with log T ~ β
and a staircase of the energy; merging of the closest pair in a rescaled clock; equiangular tokens
with exact rates for Post-LN (e^{−2t}) and Pre-LN (t^{−2}); and a phase transition at β_n = γ log n
in long context. Most statements are those of other papers here; entries of this folder test what
those papers' entries do not.

Read: abstract, introduction, and a public formal transcription of version 4 that states its
theorems one by one; a list of normalisation rates that quotes it. The text was not read in full.
"""

TITLE = "P. Rigollet, The mean-field dynamics of transformers, 2025, arXiv:2512.01868"
KEY = "rigollet2025meanfield"
