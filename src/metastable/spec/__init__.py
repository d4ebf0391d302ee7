"""What to run, as frozen validated data: TOML in and out, with a content hash.

One tree of models serves the TOML files, the command line and every other boundary. Values are
checked here as far as they can be without building anything; shapes against each other are checked
by the objects themselves.
"""

from metastable.spec.experiment import Experiment as Experiment
from metastable.spec.experiment import load_experiment as load_experiment
