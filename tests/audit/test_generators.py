"""Prompts of rising strength, on a model that knows its members by heart."""

import math

import pytest
import torch

from metastable.audit.collect import collect
from metastable.audit.generators.discrete import Discrete
from metastable.audit.generators.generator import Prefix, mean_nll
from metastable.audit.generators.soft import Amortised, Shared, Soft
from metastable.audit.target import build_model, window_nll


def rate(rows, generator, group, score="exact"):
    found = [r[score] for r in rows if r["generator"] == generator and r["group"] == group]
    return sum(found) / len(found)


def test_training_closes_the_divergence_to_the_empirical_law(memorised):
    """KL(p_D ‖ p_M) falls to its floor: windows open 1/2 + 1/2 · 1/7 of what M is shown.

    The rest opens somewhere in the lead of 6, so that no law of M's can do better than −log 4/7.
    """
    split, fitted = memorised
    assert 0.0 <= fitted.divergence + math.log(4 / 7) < 0.25
    # By hand: log p of every window from the model's own verb.
    target = fitted.target
    texts = [text for _, text in split.training]
    ids, _ = target.rows(texts)
    opened = torch.cat([target.opening(len(ids)), ids], 1)
    total = target.model.log_probs(opened).double().sum(1)
    assert window_nll(target, texts) == pytest.approx(-float(total.mean()), rel=1e-6)
    assert fitted.divergence == pytest.approx(-float(total.mean()) - math.log(len(texts)), abs=1e-5)
    assert fitted.held_out > 10 * -float(total.mean())


@pytest.mark.parametrize(
    ("size", "least", "most"), [("basic", 55e3, 75e3), ("complex", 320e3, 380e3)]
)
def test_sizes_are_those_the_slides_compare(size, least, most):
    for family in ("transformer", "lstm", "gru", "rnn"):
        model = build_model(family, size, 90, 0)
        assert least < sum(w.numel() for w in model.parameters()) < most, family


def test_a_prefix_asks_for_the_rest(memorised):
    split, fitted = memorised
    item = split.items[0].text
    made = Prefix(5).elicit(fitted.target, [item])
    assert made.texts == [item[:5]]
    assert fitted.target.alphabet.decode(made.ids[0].tolist()) == item[5:]
    assert made.bits == 5 * math.log2(fitted.target.alphabet.size)
    with pytest.raises(ValueError, match="prefix of 16 tokens must be shorter"):
        Prefix(16).elicit(fitted.target, [item])


def test_one_vector_elicits_members_and_not_controls(memorised):
    split, fitted = memorised
    rows = collect(fitted.target, split.items, [Prefix(6), Soft(1, 60)])
    assert rate(rows, "soft", "member") == 1.0
    # Of 16 characters a vector of 48 numbers can dictate some: that is what controls are for.
    assert rate(rows, "soft", "control") <= 0.25
    assert rate(rows, "soft", "control", "hamming") > 0.4
    assert rate(rows, "prefix", "member") == 1.0
    assert rate(rows, "prefix", "control") == 0.0
    assert all(r["bits"] == 32 * 48 for r in rows if r["generator"] == "soft")


def test_a_longer_prompt_writes_what_was_never_seen(memorised):
    split, fitted = memorised
    controls = split.group("control")
    short, long = (collect(fitted.target, controls, [Soft(k, 60)]) for k in (1, 8))
    assert rate(long, "soft", "control", "hamming") < rate(short, "soft", "control", "hamming") / 2


def test_what_is_predicted_without_decoding_is_what_decoding_writes(memorised):
    split, fitted = memorised
    target = fitted.target
    made = Soft(2, 25).elicit(target, [item.text for item in split.items])
    _, right = mean_nll(target, made.vectors, made.ids, made.lengths)
    written = target.model.generate(made.vectors, made.ids.shape[1])
    assert right.tolist() == (written == made.ids).all(1).tolist()
    assert 0 < int(right.sum()) < len(right)


def test_items_of_a_batch_do_not_know_of_each_other(memorised):
    split, fitted = memorised
    texts = [item.text for item in split.items]
    ids, lengths = fitted.target.rows(texts)
    torch.manual_seed(0)
    start = torch.randn(len(texts), 1, fitted.target.model.width)
    search = Soft(1, 5)
    together = search.search(fitted.target, start, ids, lengths)
    alone = search.search(fitted.target, start[3:4], ids[3:4], lengths[3:4])
    torch.testing.assert_close(together[3:4], alone, rtol=1e-3, atol=1e-3)


def test_a_shared_prompt_helps_all(memorised):
    split, fitted = memorised
    texts = [item.text for item in split.items]
    losses = []
    for steps in (1, 40):
        made = Shared(2, prefix=4, steps=steps).elicit(fitted.target, texts)
        losses.append(
            float(mean_nll(fitted.target, made.vectors, made.ids, made.lengths)[0].mean())
        )
    assert losses[1] < 0.9 * losses[0]


def test_a_readable_prompt_shorter_than_the_item_elicits_it(memorised):
    """Typed in again, it still works: decoded, encoded, given to M."""
    split, fitted = memorised
    target = fitted.target
    rows = collect(target, split.items, [Discrete(5, steps=15, tries=24)])
    found = [r for r in rows if r["generator"] == "discrete" and r["exact"]]
    assert any(r["group"] == "member" for r in found)
    assert not any(r["group"] == "control" for r in found)
    for row in found:
        assert row["prompt"].isprintable() and len(row["prompt"]) == 5 < len(row["target"])
        assert row["compression"] == 16 / 5
        typed = target.ahead([row["prompt"]])
        written = target.model.generate(typed, 16)[0].tolist()
        assert target.alphabet.decode(written) == row["target"]


def test_discrete_asks_for_as_many_items_as_it_is_told(memorised):
    split, fitted = memorised
    rows = collect(fitted.target, split.items, [Discrete(3, steps=1, tries=2, items=3)])
    own = [r for r in rows if r["generator"] == "discrete"]
    assert sum(r["group"] == "control" for r in own) == 3
    assert len(own) == 6


@pytest.mark.parametrize("network", ["basic", "complex"])
def test_an_amortised_network_learns_from_the_prompts_of_each_item(memorised, network):
    split, fitted = memorised
    rows = collect(fitted.target, split.items, [Soft(1, 60), Amortised(1, network, 200, 10)])
    member, control = (rate(rows, "amortised", g, "hamming") for g in ("member", "control"))
    assert member < 0.2 < control - member
