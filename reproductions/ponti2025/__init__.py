"""A bachelor's thesis (Università di Pisa, 2025).

It treats attention on measures of any number of tokens, universality, and attention layers on
Gaussians, iterated and learned.
"""

TITLE = "E. Ponti, Input di lunghezza arbitraria e misure gaussiane, 2025"
KEY = "ponti2025gaussian"
