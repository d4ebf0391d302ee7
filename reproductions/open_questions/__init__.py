"""Questions that papers leave open, as experiments with a standing answer.

Each entry states the question, who asks it, and what runs say: "numerically yes for …, with
interval", or no, or undecided. An answer here is no proof: sizes and ranges stand in the limits.
The claim is the answer as a statement that runs can refute, and its verdict says whether they do.
"""

TITLE = "Open questions of the field, with standing numerical answers"
KEY = "rigollet2025meanfield"
