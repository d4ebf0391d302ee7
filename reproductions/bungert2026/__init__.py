"""Attention at low temperature: a projection first, the value matrix last.

At large β a token x attends to the place y that maximises ⟨Qx, Ky⟩, which moves it along Mx with
M = VKᵀQ: to P x/‖Px‖, P the spectral projection on the leading eigenvalues of M. The paper bounds
W₂(μ_t, P_#μ_0) by a constant times √(log(β+1)/β) e^{Ct} + e^{−ct}: at times of order log β the
tokens are near the projection, which lasts for moderate times; later phases see V alone. The same
first phase is in the notes on large β of geshkovski2023 and alcalde2025 has its limit in R^d.

Read: the abstract. The map P is derived here (the abstract says that Q, K and V make it), as are
all rates; C and c of the paper were not seen and are not compared.
"""

TITLE = (
    "A. Alcalde, L. Bungert et al., Quantifying concentration phenomena of mean-field transformers "
    "in the low-temperature regime, 2026, arXiv:2605.10931"
)
KEY = "bungert2026concentration"
