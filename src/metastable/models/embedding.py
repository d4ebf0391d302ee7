"""Words as vectors: analogies in the embedding table, and the pull of a context on a word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metastable.core import checks
from metastable.models.capture import capture
from metastable.models.folder import load
from metastable.models.network import Network
from metastable.models.prompts import SmilesTokenizer


def analogy(
    source: Any, plus: Sequence[str], minus: Sequence[str], count: int = 5
) -> list[tuple[str, float]]:
    """Words nearest to Σplus − Σminus in the embedding table, with their cosines.

    analogy(model, ["king", "woman"], ["man"]) asks for king − man + woman; rows of the table are
    directions, centred by their mean, and the words given are left out of the answer. Each word
    must be one token of the vocabulary. Source: Mikolov et al., NAACL 2013.
    """
    checks.integer("count", count, 1)
    network = load(source)
    given = {word: _single(network, word) for word in (*plus, *minus)}
    model: Any = network.model
    rows = model.get_input_embeddings().weight.detach().to("cpu", torch.float64).numpy().copy()
    rows -= rows.mean(axis=0)
    lengths = np.maximum(np.sqrt(np.einsum("nd,nd->n", rows, rows)), 1e-12)
    unit = lambda word: rows[given[word]] / lengths[given[word]]
    sought = sum(map(unit, plus)) - sum(map(unit, minus))
    cosines = rows @ sought / (lengths * np.linalg.norm(sought))
    # Answers in the same writing as the question: whole words, not pieces or marks.
    pieces = network.tokenizer.convert_ids_to_tokens(list(range(len(rows))))
    words = ["" if piece is None else piece for piece in pieces]
    piece = words[given[plus[0]]]
    start = piece[: len(piece) - len(plus[0])]
    whole = [word.startswith(start) and word.removeprefix(start).isalpha() for word in words]
    cosines[~np.array(whole)] = -np.inf
    cosines[list(given.values())] = -np.inf
    best = np.argsort(-cosines)[:count]
    return [(words[k].removeprefix(start), float(cosines[k])) for k in best]


@dataclass(frozen=True, eq=False)
class ContextPull:
    """One word in several sentences, through depth; see `context_pull`."""

    word: str
    times: np.ndarray  # (T,)
    agreement: np.ndarray  # (T, S, S) cosines of the word between sentences
    pull: np.ndarray  # (T, S) cosine of the word with the mean direction of its own sentence


def context_pull(source: Any, word: str, sentences: Sequence[str]) -> ContextPull:
    """How a context pulls a word of several meanings: the same token in different sentences.

    In the table its vectors are one (up to positions); attention moves each towards its own
    sentence. `agreement` falls between sentences of different meaning more than within one.
    Every sentence must hold the word as a single token.
    """
    network = load(source)
    _single(network, word)
    runs, places = [], []
    for sentence in sentences:
        run = capture(network, sentence, progress=False)
        words = [shown.lower() for shown in run.statistics["words"]]
        if word.lower() not in words:
            raise ValueError(f"sentences must each hold the word {word!r}; got {sentence!r}.")
        runs.append(run)
        places.append(words.index(word.lower()))
    pairs = [(np.asarray(run.points), place) for run, place in zip(runs, places, strict=True)]
    words = np.stack([x[:, place] for x, place in pairs], axis=1)  # (T, S, d)
    rest = np.stack([np.delete(x, place, axis=1).mean(axis=1) for x, place in pairs], axis=1)
    rest /= np.linalg.norm(rest, axis=2, keepdims=True)
    agreement = np.einsum("tsd,tud->tsu", words, words)
    return ContextPull(word, np.asarray(runs[0].times), agreement, np.sum(words * rest, axis=2))


def _single(network: Network, word: str) -> int:
    """The id of a word that is one token, as it stands in the middle of a sentence."""
    tokenizer = network.tokenizer
    if tokenizer is None or isinstance(tokenizer, SmilesTokenizer):
        raise ValueError(f"words need a model of a language; got {network.name}.")
    for text in (f" {word}", word):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
            return ids[0]
    raise ValueError(f"word must be a single token of {network.name}; got {word!r}.")
