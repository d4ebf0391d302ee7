"""Theory and samples side by side: the Gaussian programme of verification, iteration and spectra.

A trial draws random matrices, asks a closed form and a simulation, and returns both with their
distance. Like `comparison/` it hears theory and flows, so it cannot live in either.
"""

from metastable.comparison.random_matrices.iteration import (
    SETTINGS,
    Iteration,
    Setting,
    Track,
    iterate,
)
from metastable.comparison.random_matrices.spectra import ENSEMBLES, Ensemble, Spectrum, spectra
from metastable.comparison.random_matrices.verdicts import (
    judge_iterations,
    judge_spectra,
    judge_verification,
)
from metastable.comparison.random_matrices.verification import Errors, Series, Verification, verify

__all__ = [
    "ENSEMBLES",
    "SETTINGS",
    "Ensemble",
    "Errors",
    "Iteration",
    "Series",
    "Setting",
    "Spectrum",
    "Track",
    "Verification",
    "iterate",
    "judge_iterations",
    "judge_spectra",
    "judge_verification",
    "spectra",
    "verify",
]
