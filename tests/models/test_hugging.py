"""Causal models of Hugging Face folders behind our verbs."""

import json

import pytest
import torch

from metastable.models.folder import load_causal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    place = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=12,
        n_positions=16,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    GPT2LMHeadModel(config).save_pretrained(place)
    words = Tokenizer(models.WordLevel({c: k for k, c in enumerate("abcdefghijkl")}, "a"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(place)
    return place


def test_log_probs_are_those_of_transformers(folder):
    from transformers import GPT2LMHeadModel

    model, tokenizer = load_causal(folder)
    ids = torch.tensor([[0, 3, 5, 7, 2, 2, 9]])
    with torch.no_grad():
        wanted = GPT2LMHeadModel.from_pretrained(folder).eval()(input_ids=ids, labels=ids).loss
    found = -model.log_probs(ids).mean()
    assert float(found.detach()) == pytest.approx(float(wanted), abs=1e-5)
    assert tokenizer.encode("b d") == [1, 3]


def test_writing_is_greedy_decoding_of_transformers(folder):
    from transformers import GPT2LMHeadModel

    model, _ = load_causal(folder)
    ids = torch.tensor([[0, 3, 5]])
    other = GPT2LMHeadModel.from_pretrained(folder).eval()
    state = ids
    with torch.no_grad():
        for _ in range(6):
            state = torch.cat([state, other(state).logits[:, -1:].argmax(-1)], 1)
    assert model.generate(ids, 6).tolist() == state[:, 3:].tolist()


def test_refusals(folder, tmp_path):
    model, _ = load_causal(folder)
    with pytest.raises(ValueError, match="16 places; they take 17"):
        model.forward_embeddings(torch.zeros(1, 17, 16))
    with pytest.raises(ValueError, match="must exist"):
        load_causal(tmp_path / "none")
    (tmp_path / "config.json").write_text(json.dumps({"auto_map": {"AutoModel": "evil.py"}}))
    with pytest.raises(ValueError, match="was not run"):
        load_causal(tmp_path)
