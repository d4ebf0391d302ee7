"""Texts as ids of a model of one's own: bytes, words to show, and the page that keeps them."""

import numpy as np
import pytest
import torch

import metastable as ms
from metastable.models import Prompt, capture, inspect, save_model

transformers = pytest.importorskip("transformers")

TEXT = b"Attention moves."


@pytest.fixture(scope="module")
def tiny():
    """A GPT-2 over bytes in memory, without a tokeniser."""
    torch.manual_seed(0)
    shape = {"vocab_size": 256, "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    config = transformers.GPT2Config(**shape, bos_token_id=None, eos_token_id=None)
    return transformers.GPT2LMHeadModel(config)


def test_bytes_are_ids_with_their_characters_as_words(tiny):
    read, plain = capture(tiny, TEXT), capture(tiny, list(TEXT))
    np.testing.assert_array_equal(read.frames[-1].points, plain.frames[-1].points)
    assert read.statistics["words"] == ["␣" if c == " " else c for c in TEXT.decode()]
    assert len(capture(tiny, [TEXT, TEXT[:5]])) == 2
    assert len(capture(tiny, TEXT, tokens=4).statistics["words"]) == 4


def test_a_prompt_keeps_its_words(tiny):
    prompt = Prompt((7, 8, 9), ("one", "two", "three"), (False, False, True))
    run = capture(tiny, prompt)
    assert run.statistics["words"] == ["one", "two", "three"]
    assert capture(tiny, prompt, special=False).statistics["words"] == ["one", "two"]
    with pytest.raises(ValueError, match="a word and a mark"):
        Prompt((7, 8), ("one",), (False, False))


def test_an_inspection_of_a_model_in_memory_is_kept_with_its_full_page(tiny, tmp_path):
    found = inspect(tiny, [TEXT], twins=1, progress=False)
    kept = found.save(tmp_path / "page")
    again = ms.open(kept.folder)
    assert again.sentence == found.sentence and again.kind == "inspect"
    assert again.verdicts.rows == found.verdicts.rows
    page = (tmp_path / "page" / "report.html").read_text()
    assert "Where tokens look" in page and "Which theorems apply" in page


def test_saving_a_model_of_transformers_says_whose_work_that_is(tiny, tmp_path):
    with pytest.raises(ValueError, match="save_pretrained"):
        save_model(tiny, tmp_path / "model")
    assert not (tmp_path / "model").exists()
