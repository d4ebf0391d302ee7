"""Text to tokens: ids, the words to show, and which of them are special; reaction SMILES too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core import checks
from metastable.models.network import Network

# An atom in brackets, a two-letter halogen, an atom, a ring number, a bond, the arrow.
BYTES = 256  # words of a model of ours that reads a text byte by byte
SMILES = re.compile(r"\[[^\]]+\]|Br|Cl|>>|%\d\d|[BCNOPSFIbcnops0-9()=#+\-./\\:~@?*$>]")


class SmilesTokenizer:
    """Cuts a reaction such as `CCO.Br>>CCBr` into atoms, bonds and the arrow.

    `[CLS]` and `[SEP]` are put around it, as in training. Characters that are no SMILES are
    refused; an atom the vocabulary lacks becomes `[UNK]`.
    """

    def __init__(self, vocabulary: Path):
        self.words = vocabulary.read_text(encoding="utf-8").split("\n")
        self.ids = {word: number for number, word in enumerate(self.words) if word}
        self.special = {self.ids[word] for word in ("[PAD]", "[CLS]", "[SEP]")}

    @staticmethod
    def suits(folder: Path) -> bool:
        """Whether a folder holds such a vocabulary and no tokeniser of its own."""
        file = folder / "vocab.txt"
        if (folder / "tokenizer.json").exists() or not file.is_file():
            return False
        words = file.read_text(encoding="utf-8").split("\n")
        return ">>" in words and "[CLS]" in words and "the" not in words

    def encode(self, text: str) -> list[int]:
        text = "".join(text.split())
        parts = SMILES.findall(text)
        if "".join(parts) != text:
            odd = next(c for c in text if not SMILES.fullmatch(c) and c not in "[]lr%")
            raise ValueError(f"text must be reaction SMILES for this model; got {odd!r} in it.")
        unknown = self.ids["[UNK]"]
        middle = [self.ids.get(part, unknown) for part in parts]
        return [self.ids["[CLS]"], *middle, self.ids["[SEP]"]]


@dataclass(frozen=True)
class Prompt:
    """One sequence of tokens, with the words that pictures show and what only frames the text."""

    ids: tuple[int, ...]
    words: tuple[str, ...]
    special: tuple[bool, ...]

    def __post_init__(self):
        if not len(self.ids) == len(self.words) == len(self.special):
            raise ValueError(
                "a Prompt must have a word and a mark of special tokens for each id; got "
                f"{len(self.ids)} ids, {len(self.words)} words, {len(self.special)} marks."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, count: int) -> Prompt:
        """Its first tokens; itself where it has no more."""
        if len(self) <= count:
            return self
        return Prompt(self.ids[:count], self.words[:count], self.special[:count])

    def shuffled(self, seed: int = 0) -> Prompt:
        """The same tokens in another order; special ones stay where they are."""
        order = np.arange(len(self))
        free = np.flatnonzero(~np.array(self.special))
        order[free] = np.random.default_rng(checks.seed(seed)).permutation(free)
        return Prompt(
            tuple(self.ids[k] for k in order), tuple(self.words[k] for k in order), self.special
        )


def check_tokenizer(tokenizer: Any, network: Network) -> Any:
    """A tokeniser whose words the network has vectors for, as it is."""
    if isinstance(tokenizer, SmilesTokenizer):
        words = len(tokenizer.words)
    elif callable(tokenizer) and callable(getattr(tokenizer, "convert_ids_to_tokens", None)):
        # Without words added to it: one for padding, say, is never met in a text.
        words = int(getattr(tokenizer, "vocab_size", 0))
    else:
        raise ValueError(
            f"tokenizer must be one of transformers; got {type(tokenizer).__name__}: wrap it in "
            "PreTrainedTokenizerFast(tokenizer_object=...)."
        )
    if words > network.vocabulary:
        raise ValueError(
            f"tokenizer must give ids below the vocabulary {network.vocabulary} of "
            f"{network.name}; got one of {words} words: use the model's own."
        )
    return tokenizer


def is_batch(prompt: Any) -> bool:
    """Whether prompts are given, and not one: a text, a `Prompt` or ids is one."""
    if not isinstance(prompt, str | Prompt | Sequence) and np.ndim(prompt) == 0:
        raise ValueError(
            f"prompt must be a text, ids, or a list of such; got {type(prompt).__name__}."
        )
    if isinstance(prompt, str | bytes | Prompt) or not len(prompt):
        return False
    return isinstance(prompt[0], str | bytes | Prompt) or np.ndim(prompt[0]) == 1


def read_prompt(
    network: Network, prompt: str | bytes | Sequence[int] | Prompt, tokens: int | None = None
) -> Prompt:
    """The tokens of a text, or of ids given as they are; the first `tokens` of them if told.

    Special tokens the model frames a text with count, and stay when a text is cut. A model of ours
    with 256 words reads bytes; `bytes` are the ids of a text for any model that was trained so. A
    `Prompt` keeps its own words.
    """
    if tokens is not None:
        checks.integer("tokens", tokens, 2)
    given: Prompt | None = None
    if isinstance(prompt, bytes):
        words = tuple(chr(number).strip() or "␣" for number in prompt)
        prompt = Prompt(tuple(prompt), words, (False,) * len(prompt))
    if isinstance(prompt, Prompt):
        given = prompt if tokens is None else prompt.first(tokens)
        ids = list(given.ids)
    elif isinstance(prompt, str):
        ids = _encode(network, prompt, tokens)
    else:  # arrays and tensors too, whose numbers are not Python's
        numbers = getattr(prompt, "tolist", lambda: prompt)()
        ids = [checks.integer("ids", number, 0) for number in numbers][:tokens]
    if len(ids) < 2:
        raise ValueError(f"text must give at least two tokens; got {len(ids)}: write more.")
    if max(ids) >= network.vocabulary:
        remedy = ": use the model's own tokeniser" if isinstance(prompt, str) else ""
        raise ValueError(
            f"ids must be below the vocabulary {network.vocabulary}; got {max(ids)}{remedy}."
        )
    limit = network.positions
    if limit is not None and len(ids) > limit:
        raise ValueError(
            f"text must have at most {limit} tokens, the positions of {network.name}; got "
            f"{len(ids)}: shorten it, or keep the first ones with tokens={limit}."
        )
    if given is not None:
        return given
    return Prompt(tuple(ids), tuple(_words(network, ids)), tuple(_special(network.tokenizer, ids)))


def _encode(network: Network, text: str, tokens: int | None) -> list[int]:
    if not text.strip():
        raise ValueError("text must not be empty; got only white space.")
    tokenizer = network.tokenizer
    if tokenizer is None and network.own and network.vocabulary == BYTES:
        return list(text.encode("utf-8"))[:tokens]
    if tokenizer is None:
        raise ValueError(
            f"text needs a tokeniser, and {network.name} has none: put its tokenizer.json into the "
            "folder; in Python give ids or bytes instead, or load(model, tokenizer=...)."
        )
    if isinstance(tokenizer, SmilesTokenizer):
        ids = tokenizer.encode(text)
        return ids if tokens is None or len(ids) <= tokens else [*ids[: tokens - 1], ids[-1]]
    if tokens is None:
        return tokenizer(text, verbose=False)["input_ids"]
    return tokenizer(text, truncation=True, max_length=tokens, verbose=False)["input_ids"]


def _words(network: Network, ids: Sequence[int]) -> list[str]:
    tokenizer = network.tokenizer
    if tokenizer is None and network.own and network.vocabulary == BYTES:
        return [chr(number).strip() or "␣" for number in ids]
    if tokenizer is None:
        return [str(number) for number in ids]
    if isinstance(tokenizer, SmilesTokenizer):
        return [tokenizer.words[number] for number in ids]
    pieces = tokenizer.convert_ids_to_tokens(list(ids))
    # A table is often longer than the vocabulary, for round numbers.
    return [str(i) if p is None else _plain(p) for i, p in zip(ids, pieces, strict=True)]


def _plain(piece: str) -> str:
    """A piece of a word as people write it: without the marks of its tokeniser."""
    for mark in ("##", "Ġ", "▁"):
        piece = piece.removeprefix(mark)
    return piece.replace("Ċ", "⏎") or "␣"


def _special(tokenizer: Any, ids: Sequence[int]) -> list[bool]:
    if tokenizer is None:
        return [False] * len(ids)
    if isinstance(tokenizer, SmilesTokenizer):
        marked = tokenizer.special
    else:  # an unknown word, or a masked one, is a token of the text
        frames = ("cls", "sep", "bos", "eos", "pad")
        marked = {getattr(tokenizer, f"{frame}_token_id", None) for frame in frames}
    return [number in marked for number in ids]
