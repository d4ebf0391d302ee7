"""Summary of a master's thesis (Università di Pisa, September 2024).

It treats the mean-field limit of self-attention: metastable phases, their time scales, noise. The
paper by Bruno, Pasqualotto and Agazzi on the same subject is arXiv:2410.23228.
"""

TITLE = "G. Bruno, Clustering behavior in a mean-field transformer model, 2024"
KEY = "bruno2024thesis"
