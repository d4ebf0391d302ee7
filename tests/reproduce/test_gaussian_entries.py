"""Entries of the Gaussian document flip when an error is planted into what they rest on."""

from __future__ import annotations

from metastable.fields import SelfAttention
from metastable.learn import separation
from metastable.reproduce import (
    gaussian_identities,
    gaussian_iterations,
    gaussian_layers,
    matrix_learning,
    spectra,
    universality,
    word_vectors,
)
from metastable.theory.matrices import Semicircle
from metastable.trials import ENSEMBLES, Ensemble

LINE = {"means": [0.7], "deviations": [0.7], "order": 48}
GRADIENT = {"dim": 6, "key_dim": 3, "samples": 6, "epochs": 8}


def hotter(monkeypatch):
    """Attention with 1.3 times its β."""
    drift = SelfAttention.drift

    def wrong(self, *rest):
        import equinox as eqx

        return drift(eqx.tree_at(lambda one: one.beta, self, 1.3 * self.beta), *rest)

    monkeypatch.setattr(SelfAttention, "drift", wrong)


def test_a_wrong_temperature_is_seen_on_the_line(monkeypatch):
    assert gaussian_identities.gaussian_line(**LINE).as_known("agree")
    hotter(monkeypatch)
    # Another number of tokens, or the right drift would come from the cache of compilations.
    found = gaussian_identities.gaussian_line(**{**LINE, "order": 40})
    assert not found.as_known("agree")


def test_a_wrong_law_is_seen_in_spectra(monkeypatch):
    assert spectra.gaussian_spectrum(sizes=[100, 200], seed=0).as_known("agree")
    one = ENSEMBLES["wigner"]
    wider = {**one.__dict__, "law": lambda n: Semicircle(scale=1.3)}
    monkeypatch.setitem(ENSEMBLES, "wigner", Ensemble(**wider))
    assert not spectra.gaussian_spectrum(sizes=[100, 200], seed=0).as_known("agree")


def test_a_slow_clock_is_seen_in_the_limit_of_small_steps(monkeypatch):
    settings = {"dim": 6, "depths": [20, 40, 80], "share": 0.5, "seed": 0}
    assert gaussian_layers.continuous_limit(**settings).as_known("agree")
    whole = gaussian_layers.gaussian_layers
    slow = lambda measure, field, depth, step, **more: whole(
        measure, field, depth, 0.7 * step, **more
    )
    monkeypatch.setattr(gaussian_layers, "gaussian_layers", slow)
    assert not gaussian_layers.continuous_limit(**settings).as_known("agree")


def test_the_step_at_which_the_truncated_map_fails_is_foretold(monkeypatch):
    assert gaussian_iterations.negative_eigenvalues(seeds=2).as_known("disagree")
    longest = gaussian_iterations.longest_truncated_step
    monkeypatch.setattr(
        gaussian_iterations, "longest_truncated_step", lambda *given: 0.7 * longest(*given)
    )
    assert not gaussian_iterations.negative_eigenvalues(seeds=2).as_known("disagree")


def test_a_wrong_gradient_is_told_from_the_right_one(monkeypatch):
    assert matrix_learning.listing_gradient(**GRADIENT).as_known("disagree")
    listed = matrix_learning._listed
    monkeypatch.setattr(
        matrix_learning, "_listed", lambda layer, m, data, repaired: listed(layer, m, data, True)
    )
    assert not matrix_learning.listing_gradient(**GRADIENT).as_known("disagree")


def test_a_blunt_sigmoid_separates_nothing(monkeypatch):
    settings = {"grids": [33], "epsilon": 0.1}
    assert universality.separating_sets(**settings).as_known("agree")
    monkeypatch.setattr(universality, "sigmoid", lambda z: separation.sigmoid(0.7 * z))
    assert not universality.separating_sets(**settings).as_known("agree")


def test_entries_without_their_weights_are_not_applicable(monkeypatch):
    monkeypatch.setattr(word_vectors, "_load", lambda model: None)
    for found in (
        word_vectors.token_clusters(model="minilm", shuffles=1),
        word_vectors.word_analogies(model="minilm", draws=1),
        word_vectors.heads_differ(model="minilm", text=""),
        word_vectors.context_moves_word(model="minilm"),
    ):
        assert found.verdict == "not applicable" and "pip install" in found.notes[0]
