"""Variables that tokens carry keep them apart: the best measure is an image of their law.

Tokens on the sphere that each carry a fixed vector (a position, a part of a prompt) beside what
moves need not fall into one point: the energy is then largest for tokens that are a function of
what they carry, so that their law is the image of the law of the carried variables. Without them
the maximiser is a point mass (arXiv:2312.10794, arXiv:2501.03096).

Read: the abstract and summaries of it only. How the paper couples tokens and carried variables we
did not see; the additive coupling of the entries here, ∬e^{β⟨x+αp, x'+αp'⟩}, is our choice.
"""

TITLE = (
    "M. Imaizumi, M. Koyama, N. Isobe and K. Hayashi, Anti mode-collapse in mean-field "
    "transformer via auxiliary variables, 2026, arXiv:2605.30229"
)
KEY = "imaizumi2026anti"
