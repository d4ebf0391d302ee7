"""How much attention can spread two prompts that are near each other.

As a map of n tokens in a ball of radius R attention has a Lipschitz constant of the order of √n,
which is reached for moderate n; for very many tokens a bound without n takes over, exponential in
b = β‖QᵀK‖R², with a lower bound that matches it. The same √n holds for masked attention. The
library's `token_lipschitz` and `mean_field_lipschitz` carry these laws with constants of our own.
Castin2025 uses them for its mean-field limit.

Read: the abstract, a summary of all sections, and the scripts for adversarial prompts. The
constants of the theorems were not compared; BERT and GPT-2 were not run.
"""

TITLE = "V. Castin et al., How smooth is attention?, 2023, arXiv:2312.14820"
KEY = "castin2023smooth"
