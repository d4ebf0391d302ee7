"""One flow as a spec: start, field and how to move. Without JAX, so that a server can read it."""

from metastable.spec.experiment import Experiment as Experiment
