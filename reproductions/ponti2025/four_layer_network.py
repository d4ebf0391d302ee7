"""A network with three hidden layers for any continuous function."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._sigmoid_network import approximate, certify
from ._universality_figures import plot_approximation

ENTRY = Entry(
    title="A network with three hidden layers for any continuous function",
    places=["Theorem 2.2"],
    claim=(
        "For every continuous function on a compact set and every ε there is a sigmoid "
        "network of N_4, three hidden layers, within ε of it."
    ),
    method=(
        "The step of the proof, which lowers the error to 3/4, iterated for xy on the square; "
        "the error is then proved everywhere by Lipschitz bounds on cells."
    ),
    subject="networks",
    basis="text",
    limits=(
        "One function (xy on the square) to tolerance 0.1 (0.4 under --fast); the theorem is "
        "for every function."
    ),
    planted="approximate.tolerance * 2.0",
    settings={"tolerance": 0.1, "grid": 193},
    fast={"tolerance": 0.4, "grid": 49},
)


def four_layer_network(*, tolerance: float, grid: int) -> Finding:
    """The 3/4 step of the proof, iterated to a tolerance and certified between grid points."""
    target = lambda x: x[:, 0] * x[:, 1]
    built = approximate(target, tolerance, grid=grid)
    network, errors = built.network, np.array(built.errors)
    proof = certify(network, target, 2**0.5, tolerance)
    random = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    seen = float(np.abs(network(random) - target(random)).max())
    rows = [
        holds(f"a network of N_4 within {tolerance:g} of xy on [−1, 1]², proved by cells",
              "Theorem 2.2", proof.bound <= tolerance, f"at most {tolerance:g}", proof.bound,
              f"{len(errors) - 1} steps, hidden layers of {', '.join(map(str, network.widths))}"),
        holds("each step leaves at most 3/4 of the error", "proof of Theorem 2.2",
              bool(np.all(errors[1:] <= 0.75 * errors[:-1] + 1e-12)), "at most 0.75",
              float((errors[1:] / errors[:-1]).max())),
        judge("hidden layers", "N_4", 3, len(network.widths), absolute=0),
        holds("largest error at 20 000 random points", "not used in the construction",
              seen <= proof.bound, "below the proved bound", seen),
    ]  # fmt: skip
    note = (
        "The proof is by contradiction and its infimum is unknown; the construction iterates its "
        "step, recentred so that neither of the two sets is empty."
    )
    return Finding(rows, {"network": plot_approximation(built, target)}, [note])
