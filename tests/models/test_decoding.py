"""Decodings against brute force over all texts of a tiny vocabulary."""

import itertools

import pytest
import torch

from metastable.models.own.decoding import Beam, Greedy, Sample

V, LENGTH = 3, 4


def made_law(seed):
    """Random log-probabilities of the next id for each beginning, without any model."""
    source = torch.Generator().manual_seed(seed)
    table = {
        text: torch.randn(V, generator=source, dtype=torch.float64).mul(2).log_softmax(0)
        for n in range(LENGTH)
        for text in itertools.product(range(V), repeat=n)
    }
    return lambda ids: torch.stack([table[tuple(row)] for row in ids.tolist()])


def score(following, text, stop=None):
    total = 0.0
    for t, i in enumerate(text):
        if stop is not None and stop in text[:t]:
            if i != stop:
                return -float("inf")
            continue
        total += float(following(torch.tensor([text[:t]], dtype=torch.long))[0, i])
    return total


def start(rows=1):
    return torch.empty(rows, 0, dtype=torch.long)


@pytest.mark.parametrize("stop", [None, 1])
def test_wide_beam_finds_the_most_likely_text(stop):
    better = 0
    for seed in range(10):
        law = made_law(seed)
        texts = list(itertools.product(range(V), repeat=LENGTH))
        best = max(texts, key=lambda text: score(law, text, stop))
        found = tuple(Beam(V ** (LENGTH - 1)).extend(law, start(), LENGTH, stop)[0].tolist())
        assert found == best
        greedy = tuple(Greedy().extend(law, start(), LENGTH, stop)[0].tolist())
        better += score(law, best, stop) > score(law, greedy, stop) + 1e-9
    assert better >= 2  # or the test would not tell a beam from greed


def test_beam_keeps_the_best_beginnings_of_each_length():
    for seed in range(5):
        law, kept = made_law(seed), [()]
        for _ in range(LENGTH):
            grown = [(*text, i) for text in kept for i in range(V)]
            kept = sorted(grown, key=lambda text: -score(law, text))[:2]
        assert tuple(Beam(2).extend(law, start(), LENGTH, None)[0].tolist()) == kept[0]


def test_beam_of_one_is_greedy_and_greedy_is_the_argmax():
    for seed in range(5):
        law, text = made_law(seed), ()
        for _ in range(LENGTH):
            text = (*text, max(range(V), key=lambda i, text=text: score(law, (*text, i))))
        for decoding in (Greedy(), Beam(1)):
            assert tuple(decoding.extend(law, start(), LENGTH, None)[0].tolist()) == text


def test_rows_do_not_mix():
    laws = [made_law(seed) for seed in range(4)]

    def following(ids):
        return torch.cat([law(rows) for law, rows in zip(laws, ids.chunk(4), strict=True)])

    together = Beam(3).extend(following, start(4), LENGTH, None)
    for law, row in zip(laws, together, strict=True):
        assert torch.equal(Beam(3).extend(law, start(), LENGTH, None)[0], row)


def test_sampling_law_by_hand():
    p = torch.tensor([[0.15, 0.5, 0.05, 0.3]], dtype=torch.float64)

    def law(**choice):
        return Sample(**choice).law(p.log())[0].tolist()

    assert law() == pytest.approx([0.15, 0.5, 0.05, 0.3])
    assert law(top_k=2) == pytest.approx([0, 0.625, 0, 0.375])
    assert law(top_p=0.79) == pytest.approx([0, 0.625, 0, 0.375])
    assert law(top_p=0.81) == pytest.approx([0.15 / 0.95, 0.5 / 0.95, 0, 0.3 / 0.95])
    assert law(top_p=1e-9) == pytest.approx([0, 1, 0, 0])
    # p^2, then the two largest, of which the larger alone carries 25/34 >= 0.7.
    assert law(temperature=0.5, top_k=2) == pytest.approx([0, 25 / 34, 0, 9 / 34])
    assert law(temperature=0.5, top_k=2, top_p=0.7) == pytest.approx([0, 1, 0, 0])


def test_samples_follow_the_law():
    """Counts of 20 000 first ids within five standard deviations; the seed decides."""
    law, rows = made_law(0), 20_000

    def following(ids):
        return law(ids[:1]).expand(len(ids), V)

    drawn = Sample(temperature=1.5, seed=7).extend(following, start(rows), 1, None)
    again = Sample(temperature=1.5, seed=7).extend(following, start(rows), 1, None)
    assert torch.equal(drawn, again)
    p = (law(start()) / 1.5).softmax(-1)[0]
    counts = torch.bincount(drawn[:, 0], minlength=V)
    deviations = (counts - rows * p) / (rows * p * (1 - p)).sqrt()
    assert deviations.abs().max() < 5
    assert not torch.equal(drawn, Sample(seed=8).extend(following, start(rows), 1, None))


@pytest.mark.parametrize("decoding", [Greedy(), Sample(seed=3), Beam(3)])
def test_nothing_follows_a_stop(decoding):
    for seed in range(5):
        text = decoding.extend(made_law(seed), start(), LENGTH, 0)[0].tolist()
        if 0 in text:
            assert set(text[text.index(0) :]) == {0}


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"temperature": 0}, "Greedy"),
        ({"top_k": 0}, "top_k must be an integer >= 1"),
        ({"top_p": 0.0}, "top_p must lie in"),
        ({"top_p": 1.5}, "top_p must lie in"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_refusals(choice, said):
    with pytest.raises(ValueError, match=said):
        Sample(**choice)
    with pytest.raises(ValueError, match="width must be an integer >= 1"):
        Beam(0)
