"""How the mean over tokens is evaluated."""

from metastable.fields.sums.dense import Dense
from metastable.fields.sums.kernel import Bias, Kernel, Sum

__all__ = ["Bias", "Dense", "Kernel", "Sum"]
