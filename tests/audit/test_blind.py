"""The blind classifier: on real texts of two centuries, and against scikit-learn's fit."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from metastable.audit.blind import fit_logistic, separate_blindly
from metastable.models.pretrained import messages


@pytest.fixture(scope="module")
def speeches():
    """The presidents' messages, by the year their file begins with."""
    return {file.stem: " ".join(file.read_text("utf-8").split()) for file in messages()}


def passages(speeches, names, count, length, seed):
    random = np.random.default_rng(seed)
    chosen = random.choice(sorted(names), count, replace=False)
    starts = [int(random.integers(len(speeches[name]) - length)) for name in chosen]
    return [speeches[name][s : s + length] for name, s in zip(chosen, starts, strict=True)]


def century(speeches, *beginnings):
    return [name for name in speeches if name.startswith(beginnings)]


@pytest.mark.parametrize("seed", range(3))
def test_controls_of_another_century_are_caught(speeches, seed):
    old = passages(speeches, century(speeches, "17", "18"), 80, 1000, seed)
    new = passages(speeches, century(speeches, "19", "20"), 80, 1000, seed)
    found = separate_blindly(old, new, draws=99, seed=seed)
    assert not found.matched and found.auc.mid > 0.9


def test_controls_drawn_alike_pass(speeches):
    """Limits are the quantiles of permuted labels: 2.5 % false alarms on either side. Of 20 splits
    at most 3 (a chance of 0.016 for more)."""
    alarms = 0
    for seed in range(20):
        both = passages(speeches, speeches, 80, 48, seed)
        alarms += not separate_blindly(both[:40], both[40:], folds=5, draws=79, seed=seed).matched
    assert alarms <= 3


@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_fits_are_those_of_scikit_learn(penalty):
    random = np.random.default_rng(0)
    features = random.normal(size=(60, 8))
    labels = (features @ random.normal(size=(8, 3)) + random.normal(size=(60, 3)) > 0).astype(float)
    weights, offsets = fit_logistic(features, labels, penalty)
    for k in range(3):
        other = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=1000)
        other.fit(features, labels[:, k])
        assert weights[:, k] == pytest.approx(other.coef_[0], abs=2e-3)
        assert offsets[k] == pytest.approx(other.intercept_[0], abs=2e-3)


def test_length_alone_is_enough():
    random = np.random.default_rng(0)
    short, long = (
        ["".join(random.choice(list("ab "), n)) for n in random.integers(*span, 30)]
        for span in ((20, 60), (50, 90))
    )
    assert not separate_blindly(short, long, draws=99).matched


def test_too_few_documents_are_refused():
    with pytest.raises(ValueError, match="at least 2 documents each"):
        separate_blindly(["one"], ["two", "three"])
