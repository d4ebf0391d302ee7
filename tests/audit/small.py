"""Small audits: a corpus of made-up sentences, a model that learns it in seconds."""

from pathlib import Path

import numpy as np

WORDS = (
    "amber basin cedar delta ember fjord grove haven inlet jetty knoll ledge marsh north ocean "
    "plain quiet ridge slope tidal upper vista water xenon yield zebra"
).split()


def write_texts(folder: Path, documents: int = 64, words: int = 24, seed: int = 0) -> Path:
    """Text files of random words: no two windows alike, all drawn from one law."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(documents):
        chosen = [WORDS[i] for i in random.integers(0, len(WORDS), words)]
        (folder / f"text{k:03}.txt").write_text(" ".join(chosen))
    return folder


CONFIG = """
seed = 0
[corpus]
kind = "text"
path = "texts"
[split]
items = 16
controls = 16
background = 12
length = 16
ngram = 12
overlap = {overlap}
[model]
size = "basic"
steps = {steps}
rows = 24
rate = 5e-3
[[generators]]
kind = "prefix"
budgets = [6]
[[generators]]
kind = "soft"
budgets = [1]
steps = 30
"""


def write_config(folder: Path, overlap: float = 0.75, steps: int = 150) -> Path:
    write_texts(folder / "texts")
    path = folder / "config.toml"
    path.write_text(CONFIG.format(overlap=overlap, steps=steps))
    return path


def byte_tokenizer():
    """A tokeniser of transformers whose tokens are bytes, behind an opening token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<open>": 0} | {c: k for k, c in enumerate(letters, 1)}
    tokens = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokens, bos_token="<open>")
