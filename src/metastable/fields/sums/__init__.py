"""How the mean over tokens is evaluated: exactly over all pairs, or fast where a series exists."""

from metastable.fields.sums.choice import check_sum, choose_sum
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.kernel import Bias, Kernel, Sum
from metastable.fields.sums.nufft import CircleSum, GaussianSum, SphereSum

__all__ = ["Bias", "CircleSum", "Dense", "GaussianSum", "HarmonicSum", "Kernel", "SphereSum", "Sum"]
__all__ += ["check_sum", "choose_sum"]
