"""Slides of a master's thesis (Università della Calabria, April 2024).

They treat transformers as interacting particles, their clusters and open questions, and a generator
that makes a model write protected data again.
"""

TITLE = "B. Valente, Transformers e la tutela della proprietà dei dati, 2024"
KEY = "valente2024transformers"
