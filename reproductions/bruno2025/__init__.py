"""Three phases of many tokens at large β: alignment, heat, pairing.

The number of tokens and β grow together ("moderate interaction"): β large, but with many tokens
within a distance β^{−1/2} of each other. Then the tokens first move onto the leading eigenspace of
the value matrix, in a time of order 1; next, on that sphere and in a time of order β, their density
follows the backward heat equation (V = I, SA; forward for V = −I) or a porous-medium equation
(USA), and gathers into clusters; last, clusters merge one pair at a time, on times e^{cβ}.

The first-clusters paper (bruno2024emergence) keeps β fixed, the one on metastability
(geshkovski2024) starts from separated caps. Here is what joins them.
Read: abstract and introduction, and a survey that states the equations of the three phases in our
notation; of the pairing theorem also its wording in the review (rigollet2025). The authors' code
was not available. Rates of convergence and admissible growth of β with n are not compared.
"""

TITLE = (
    "G. Bruno, F. Pasqualotto, A. Agazzi, A multiscale analysis of mean-field transformers in the "
    "moderate interaction regime, 2025, arXiv:2509.25040"
)
KEY = "bruno2025multiscale"
