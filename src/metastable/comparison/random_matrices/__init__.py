"""Random Gaussian layers and random matrices: a closed form and a simulation side by side."""

from metastable.comparison.random_matrices.iteration import (
    SETTINGS,
    Iteration,
    Setting,
    Track,
    iterate,
)
from metastable.comparison.random_matrices.spectra import ENSEMBLES, Ensemble, Spectrum, spectra
from metastable.comparison.random_matrices.study import (
    judge_iterations,
    judge_spectra,
    judge_verification,
)
from metastable.comparison.random_matrices.verification import (
    Errors,
    ErrorSeries,
    Verification,
    verify,
)

__all__ = ["ENSEMBLES", "SETTINGS", "Ensemble", "ErrorSeries", "Errors", "Iteration", "Setting"]
__all__ += ["Spectrum", "Track", "Verification", "iterate", "judge_iterations", "judge_spectra"]
__all__ += ["judge_verification", "spectra", "verify"]
