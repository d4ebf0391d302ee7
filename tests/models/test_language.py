"""The protocol of language models, held by every family."""

import pytest
import torch

from metastable.models.own.decoding import Beam, Sample
from metastable.models.own.language import LanguageModel
from metastable.models.own.recurrent import Recurrent, RecurrentConfig
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder, TransformerConfig

CONFIG = TransformerConfig(vocabulary=7, width=16, heads=4, layers=2, hidden=24)
SOURCE = torch.tensor([[1, 2, 3], [4, 5, 6]])
FAMILIES = {
    "decoder": DecoderOnly(CONFIG),
    "conditional": EncoderDecoder(CONFIG).given(SOURCE),
    **{cell: Recurrent(RecurrentConfig(7, cell, 16, layers=2)) for cell in ("rnn", "lstm", "gru")},
}
IDS = torch.tensor([[0, 3, 1, 6, 2], [0, 2, 2, 5, 4]])

pytestmark = pytest.mark.parametrize("model", FAMILIES.values(), ids=FAMILIES)


def test_probabilities_sum_to_one_and_scores_are_theirs(model):
    assert isinstance(model, LanguageModel)
    whole = model.forward_embeddings(model.embed(IDS))
    assert whole.shape == (2, 5, 7)
    assert torch.allclose(whole.exp().sum(-1), torch.ones(2, 5), atol=1e-5)
    scores = model.log_probs(IDS)
    for row in range(2):
        for t in range(4):
            assert abs(scores[row, t] - whole[row, t, IDS[row, t + 1]]) < 1e-5


def test_greedy_text_is_made_of_the_most_likely_ids(model):
    text = model.generate(IDS[:, :2], 4)
    assert text.shape == (2, 4)
    whole = torch.cat([IDS[:, :2], text], 1)
    for t in range(4):
        following = model.forward_embeddings(model.embed(whole[:, : t + 2]))[:, -1]
        assert torch.equal(following.argmax(-1), text[:, t])


def test_wide_beam_beats_every_text(model):
    """All 49 continuations of length two, scored by log_probs."""
    best = model.generate(IDS[:, :1], 2, Beam(7))
    pairs = torch.cartesian_prod(torch.arange(7), torch.arange(7))
    totals = torch.stack(
        [model.log_probs(torch.cat([IDS[:, :1], p.expand(2, 2)], 1)).sum(1) for p in pairs]
    )
    assert torch.equal(pairs[totals.argmax(0)], best)


def test_vectors_are_prompts_too_and_feel_gradients(model):
    decoding = Sample(temperature=2.0, seed=5)
    as_ids = model.generate(IDS, 6, decoding)
    assert torch.equal(as_ids, model.generate(model.embed(IDS).detach(), 6, decoding))
    soft = torch.randn(2, 3, 16, requires_grad=True)
    target = model.embed(IDS[:, :-1]).detach()
    out = model.forward_embeddings(torch.cat([soft, target], 1))
    (felt,) = torch.autograd.grad(out[:, -1, 0].sum(), soft)
    assert (felt.abs().amax(2) > 0).all()


def test_refusals(model):
    with pytest.raises(ValueError, match=r"ids must lie in 0 … 6; got 0 … 7"):
        model.log_probs(torch.tensor([[0, 7], [1, 2]]))
    with pytest.raises(ValueError, match=r"ids must be integers of shape \(rows, n\), n >= 2"):
        model.log_probs(torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match=r"prompt must be integers"):
        model.generate(torch.zeros(2, 0, dtype=torch.long), 3)
    with pytest.raises(ValueError, match=r"prompt must be ids \(rows, n\) or vectors"):
        model.generate(torch.zeros(2, 3, 15), 3)
    with pytest.raises(ValueError, match="length must be an integer >= 1"):
        model.generate(IDS, 0)
    if not isinstance(model, torch.nn.Module):  # bound to a source of two rows
        with pytest.raises(ValueError, match="rows must be a multiple of the source's 2; got 3"):
            model.log_probs(IDS[[0, 1, 0]])
