"""Transcript of a talk whose speaker it does not name: deep networks and transformers as flows.

It goes from residual layers to self-attention on the sphere, its metastable clusters and how many
there are.
"""

TITLE = "Talk: deep networks and transformers as flows (transcript)"
KEY = "flowstalk"
