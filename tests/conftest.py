"""Shared settings: property tests run without a deadline, since the first example compiles."""

from hypothesis import settings

settings.register_profile("metastable", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("metastable")
