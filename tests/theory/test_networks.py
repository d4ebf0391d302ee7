"""Oscillators on graphs in closed form, against networkx, SciPy and the equations themselves."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from scipy.optimize import root

from metastable import theory

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("graph", [networkx.petersen_graph(), networkx.path_graph(9)])
def test_the_gap_is_that_of_networkx(graph):
    n = graph.number_of_nodes()
    expected = np.sort(networkx.laplacian_spectrum(graph))[1] / n
    seen = theory.spectral_gap(list(graph.edges), np.full(n, 1 / n))
    assert seen == pytest.approx(expected, rel=1e-10)


def test_masses_count_as_that_many_oscillators():
    """A token of mass 2/3 in place of two that are joined to the same neighbour."""
    heavy = theory.spectral_gap([[0, 1]], [2 / 3, 1 / 3])
    assert heavy == pytest.approx(1.0)  # L = [[1/3, −1/3], [−2/3, 2/3]]
    spectrum = np.linalg.eigvals(theory.graph_laplacian([[0, 1]], [2 / 3, 1 / 3]))
    assert np.allclose(np.sort(spectrum.real), [0, 1])


def test_a_graph_that_falls_apart_has_no_gap():
    assert theory.spectral_gap([[0, 1], [2, 3]], [0.25] * 4) == pytest.approx(0, abs=1e-12)
    assert not theory.is_connected([[0, 1], [2, 3]], 4)
    assert theory.is_connected([[0, 1], [2, 3], [3, 0]], 4)


@pytest.mark.parametrize("tokens", [3, 8, 40])
def test_locked_states_exist_from_the_coupling_on(tokens):
    """1 % above K_c the phases solve their own equations; 1 % below SciPy finds no root."""
    omega, w = RNG.normal(size=tokens), RNG.uniform(0.5, 1.5, tokens)
    w /= w.sum()
    off = omega - w @ omega
    critical = theory.locking_coupling(omega, w)

    def residual(theta, coupling):
        pull = np.sin(theta[None, :] - theta[:, None]) @ w
        return off + coupling * pull

    order = theory.locked_order(1.01 * critical, omega, w)
    assert order is not None and theory.locked_order(0.99 * critical, omega, w) is None
    guess = np.arcsin(off / (1.01 * critical * order))
    # Phases of the closed form solve the equations themselves.
    assert np.abs(residual(guess, 1.01 * critical)).max() < 1e-9
    below = root(residual, guess, args=(0.99 * critical,), tol=1e-10)
    assert np.abs(residual(below.x, 0.99 * critical)).max() > 1e-4


def test_uniform_frequencies_lock_at_four_over_pi():
    """Many frequencies uniform on [−γ, γ] lock wholly at K = 4γ/π (Pazó, Phys. Rev. E 72, 2005)."""
    n = 20_001
    omega = np.linspace(-1, 1, n)
    seen = theory.locking_coupling(omega, np.full(n, 1 / n))
    assert seen == pytest.approx(4 / np.pi, rel=1e-3)


def test_trees_lock_where_their_weakest_edge_does():
    tree = networkx.random_labeled_tree(9, seed=4)
    edges = np.array(tree.edges)
    omega, w = RNG.normal(size=9), RNG.uniform(0.5, 1.5, 9)
    w /= w.sum()
    off = w * (omega - w @ omega)
    needed = []
    for a, b in edges.tolist():  # the branch behind each edge, cut by networkx
        rest = tree.copy()
        rest.remove_edge(a, b)
        branch = list(networkx.node_connected_component(rest, a))
        needed.append(abs(off[branch].sum()) / (w[a] * w[b]))
    assert theory.tree_coupling(edges, omega, w) == pytest.approx(max(needed), rel=1e-9)
    with pytest.raises(ValueError, match="edges must make a tree on 3 tokens"):
        theory.tree_coupling([[0, 1], [1, 2], [2, 0]], [0.0] * 3, [1 / 3] * 3)
