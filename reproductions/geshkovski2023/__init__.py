"""Slides of a talk (EDP-COSy workshop, October 2023) on arXiv:2305.05465.

They treat pure attention in R^d in the frame that grows with it: limits of tokens and of the
attention matrix, by the spectrum of V.
"""

TITLE = (
    "B. Geshkovski, The emergence of clusters in self-attention dynamics, 2023, arXiv:2305.05465"
)
KEY = "geshkovski2023emergence"
