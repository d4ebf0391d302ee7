"""The choice of time: how a measure is moved, as one object that `flow` takes as `stepper`."""

from metastable.flows.steppers.adaptive import Adaptive
from metastable.flows.steppers.fixed import Fixed
from metastable.flows.steppers.geodesic import Geodesic
from metastable.flows.steppers.hardmax import Hardmax
from metastable.flows.steppers.layers import Layers
from metastable.flows.steppers.merging import Merging
from metastable.flows.steppers.resolution import Resolution

__all__ = ["Adaptive", "Fixed", "Geodesic", "Hardmax", "Layers", "Merging", "Resolution", "Stepper"]

Stepper = Adaptive | Fixed | Geodesic | Layers | Merging | Hardmax | Resolution
