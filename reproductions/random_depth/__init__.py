"""Tokens under weights drawn at every layer: common noise, 2026.

Of arXiv:2601.21942 (two tokens, a phase transition in β and d), arXiv:2604.01978 (layers tend to
an SDE with common noise) and arXiv:2603.06187 (synchronisation by common noise) the abstracts were
read; constants are derived here.
"""

TITLE = "Random depth: clustering by common noise, 2026"
