"""How the measure moves: continuous depth, discrete depth, with noise, merging, or at β = ∞."""

from metastable.core.outcome import Outcome
from metastable.flows.drive import drive
from metastable.flows.flow import flow
from metastable.flows.solvers.characteristics import density_velocity, push
from metastable.flows.solvers.frames import Frame
from metastable.flows.steppers import (
    Adaptive,
    Fixed,
    Geodesic,
    Hardmax,
    Layers,
    Merging,
    Resolution,
)
from metastable.flows.trajectory import Trajectory

__all__ = [
    "Adaptive",
    "Fixed",
    "Frame",
    "Geodesic",
    "Hardmax",
    "Layers",
    "Merging",
    "Outcome",
    "Resolution",
    "Trajectory",
    "density_velocity",
    "drive",
    "flow",
    "push",
]
