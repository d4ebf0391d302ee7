"""How the measure moves: continuous depth, discrete depth, with and without noise."""

from metastable.flows.layers import layers
from metastable.flows.particles import flow
from metastable.flows.steppers import Adaptive, Fixed, Geodesic
from metastable.flows.trajectory import Outcome, Trajectory

__all__ = ["Adaptive", "Fixed", "Geodesic", "Outcome", "Trajectory", "flow", "layers"]
