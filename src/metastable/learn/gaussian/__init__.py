"""Gaussians: teacher and student on covariances, tokens, and steering."""
