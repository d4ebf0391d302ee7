"""How the measure moves: continuous depth, discrete depth, with noise, merging, or at β = ∞."""

from metastable.core.outcome import Outcome
from metastable.flows.density import Resolution
from metastable.flows.flow import flow
from metastable.flows.gaussian_layers import gaussian_layers
from metastable.flows.hardmax import hardmax
from metastable.flows.lagrangian import density_velocity, push
from metastable.flows.layers import layers
from metastable.flows.staircase import Merge
from metastable.flows.steppers import Adaptive, Fixed, Geodesic
from metastable.flows.trajectory import Trajectory

__all__ = [
    "Adaptive",
    "Fixed",
    "Geodesic",
    "Merge",
    "Outcome",
    "Resolution",
    "Trajectory",
    "density_velocity",
    "flow",
    "gaussian_layers",
    "hardmax",
    "layers",
    "push",
]
