"""What we see: plain functions of a measure, or of a time series read from a run."""

from metastable.observe.attention import attention, attention_entropy, attention_rank
from metastable.observe.basins import find_equilibria
from metastable.observe.clusters import Clusters, clusters, gram_rank
from metastable.observe.continuation import Branch, follow
from metastable.observe.density import entropy, free_energy, peaks
from metastable.observe.distances import (
    sinkhorn,
    sliced_wasserstein,
    sobolev_distance,
    wasserstein,
)
from metastable.observe.energy import energy, log_potential, order_parameter
from metastable.observe.equilibria import Equilibrium, equilibrium
from metastable.observe.gaussian import bures_wasserstein
from metastable.observe.geometry import (
    Hemisphere,
    Hull,
    Hyperplanes,
    hemisphere,
    hull,
    hull_contains,
    hyperplanes,
    leaders,
)
from metastable.observe.kernel import kernel_modes
from metastable.observe.lyapunov import lyapunov_exponents
from metastable.observe.modes import amplitudes, modes, power
from metastable.observe.phases import Phases, Plateau, phases, plateaus
from metastable.observe.similarity import (
    Similarity,
    effective_rank,
    pairwise_similarity,
    residual,
    similarity,
    singular_values,
)

__all__ = [
    "Branch",
    "Clusters",
    "Equilibrium",
    "Hemisphere",
    "Hull",
    "Hyperplanes",
    "Phases",
    "Plateau",
    "Similarity",
    "amplitudes",
    "attention",
    "attention_entropy",
    "attention_rank",
    "bures_wasserstein",
    "clusters",
    "effective_rank",
    "energy",
    "entropy",
    "equilibrium",
    "find_equilibria",
    "follow",
    "free_energy",
    "gram_rank",
    "hemisphere",
    "hull",
    "hull_contains",
    "hyperplanes",
    "kernel_modes",
    "leaders",
    "log_potential",
    "lyapunov_exponents",
    "modes",
    "order_parameter",
    "pairwise_similarity",
    "peaks",
    "phases",
    "plateaus",
    "power",
    "residual",
    "similarity",
    "singular_values",
    "sinkhorn",
    "sliced_wasserstein",
    "sobolev_distance",
    "wasserstein",
]
