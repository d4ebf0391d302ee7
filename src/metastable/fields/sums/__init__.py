"""How the mean over tokens is evaluated: exactly over all pairs, or fast where a series exists."""

from metastable.fields.sums.choice import check_sum, choose_sum
from metastable.fields.sums.circle import CircleSum
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.gaussian import GaussianSum
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.kernel import Bias, Kernel, Sum
from metastable.fields.sums.sphere import SphereSum

__all__ = [
    "Bias",
    "CircleSum",
    "Dense",
    "GaussianSum",
    "HarmonicSum",
    "Kernel",
    "SphereSum",
    "Sum",
    "check_sum",
    "choose_sum",
]
