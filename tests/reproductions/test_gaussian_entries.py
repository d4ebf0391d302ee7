"""Entries of the Gaussian document flip when an error is planted into what they rest on."""

from __future__ import annotations

from metastable.comparison.random_matrices import ENSEMBLES, Ensemble
from metastable.fields import SelfAttention
from metastable.flows import Layers
from metastable.theory.matrices import Semicircle
from reproductions.ponti2025 import (
    _separation,
    context_moves_word,
    continuous_limit,
    heads_differ,
    listing_gradient,
    negative_eigenvalues,
    separating_sets,
    token_clusters,
    word_analogies,
)
from reproductions.ponti2025.gaussian_line import gaussian_line
from reproductions.ponti2025.gaussian_spectrum import gaussian_spectrum

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
    assert gaussian_line(**LINE).as_known("agree")
    hotter(monkeypatch)
    # Another number of tokens, or the right drift would come from the cache of compilations.
    found = gaussian_line(**{**LINE, "order": 40})
    assert not found.as_known("agree")


def test_a_wrong_law_is_seen_in_spectra(monkeypatch):
    assert gaussian_spectrum(sizes=[100, 200], seed=0).as_known("agree")
    one = ENSEMBLES["wigner"]
    wider = {**one.__dict__, "law": lambda n: Semicircle(scale=1.3)}
    monkeypatch.setitem(ENSEMBLES, "wigner", Ensemble(**wider))
    assert not gaussian_spectrum(sizes=[100, 200], seed=0).as_known("agree")


def test_a_slow_clock_is_seen_in_the_limit_of_small_steps(monkeypatch):
    settings = {"dim": 6, "depths": [20, 40, 80], "share": 0.5, "seed": 0}
    assert continuous_limit.continuous_limit(**settings).as_known("agree")
    whole = continuous_limit.flow
    slow = lambda measure, field, horizon, stepper, **more: whole(
        measure, field, 0.7 * horizon, stepper=Layers(0.7 * stepper.step), **more
    )
    monkeypatch.setattr(continuous_limit, "flow", slow)
    assert not continuous_limit.continuous_limit(**settings).as_known("agree")


def test_the_step_at_which_the_truncated_map_fails_is_foretold(monkeypatch):
    assert negative_eigenvalues.negative_eigenvalues(seeds=2).as_known("disagree")
    longest = negative_eigenvalues.longest_truncated_step
    monkeypatch.setattr(
        negative_eigenvalues, "longest_truncated_step", lambda *given: 0.7 * longest(*given)
    )
    assert not negative_eigenvalues.negative_eigenvalues(seeds=2).as_known("disagree")


def test_a_wrong_gradient_is_told_from_the_right_one(monkeypatch):
    assert listing_gradient.listing_gradient(**GRADIENT).as_known("disagree")
    listed = listing_gradient._listed
    monkeypatch.setattr(
        listing_gradient, "_listed", lambda layer, m, data, repaired: listed(layer, m, data, True)
    )
    assert not listing_gradient.listing_gradient(**GRADIENT).as_known("disagree")


def test_a_blunt_sigmoid_separates_nothing(monkeypatch):
    settings = {"grids": [33], "epsilon": 0.1}
    assert separating_sets.separating_sets(**settings).as_known("agree")
    monkeypatch.setattr(separating_sets, "sigmoid", lambda z: _separation.sigmoid(0.7 * z))
    assert not separating_sets.separating_sets(**settings).as_known("agree")


def test_entries_without_their_weights_are_not_applicable(monkeypatch):
    entries = (
        (token_clusters, {"shuffles": 1}),
        (word_analogies, {"draws": 1}),
        (heads_differ, {"text": ""}),
        (context_moves_word, {}),
    )
    for module, settings in entries:
        monkeypatch.setattr(module, "load_model", lambda model: None)
        entry = getattr(module, module.__name__.split(".")[-1])
        found = entry(model="minilm", **settings)
        assert found.verdict == "not applicable" and "pip install" in found.notes[0]
