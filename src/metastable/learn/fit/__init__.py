"""Particle models fitted to observed trajectories."""
