"""Two preprints of 2026 on long contexts: the critical window, and what is lost in the middle.

arXiv:2605.08505 was read as its abstract, arXiv:2605.09213 as its abstract and public code; what
goes beyond them is derived here, and each entry says so.
"""

TITLE = "Bruno et al. and Duerinckx et al., Long contexts and the lost middle, 2026"
