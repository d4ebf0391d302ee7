"""Texts to ids and back, without loss: characters, bytes, or the tokeniser of a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


class Alphabet(ABC):
    """`opening` is the id before a text; it also fills up short rows, and is no text itself."""

    size: int
    opening: int

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str: ...

    def round_trip(self, text: str) -> list[int]:
        """The ids of a text; refused unless they decode to the same text."""
        ids = self.encode(text)
        if max(ids, default=0) >= self.size:
            raise ValueError(
                f"tokeniser must belong to the model; it gives id {max(ids)} for {text[:30]!r}; "
                f"the model knows {self.size} ids: use the tokeniser the model was trained with."
            )
        if self.decode(ids) != text:
            raise ValueError(
                f"tokeniser must give an item back as it was; {text[:40]!r} becomes "
                f"{self.decode(ids)[:40]!r}: clean the text of what the tokeniser changes, or use "
                "another."
            )
        return ids

    def rows(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids (n, L), short rows filled up with `opening`, and lengths (n,)."""
        coded = [self.round_trip(text) for text in texts]
        lengths = torch.tensor([len(ids) for ids in coded])
        ids = torch.full((len(texts), int(lengths.max())), self.opening)
        for row, code in zip(ids, coded, strict=True):
            row[: len(code)] = torch.tensor(code)
        return ids, lengths

    def readable(self) -> list[int]:
        """Ids that stand for printable characters: what a discrete prompt is made of."""
        texts = ((k, self.decode([k])) for k in range(self.size) if k != self.opening)
        return [k for k, t in texts if t and t.isprintable() and self.encode(t) == [k]]


class Characters(Alphabet):
    """One id for each character; id 0 opens.

    >>> alphabet = Characters.of(["abba"])
    >>> alphabet.encode("ab"), alphabet.decode([2, 1, 0])
    ([1, 2], 'ba')
    """

    def __init__(self, characters: str):
        self.characters = characters
        self.size, self.opening = len(characters) + 1, 0
        self._ids = {c: k for k, c in enumerate(characters, 1)}

    @classmethod
    def of(cls, texts: Iterable[str]) -> Characters:
        return cls("".join(sorted(set().union(*texts))))

    def encode(self, text: str) -> list[int]:
        try:
            return [self._ids[c] for c in text]
        except KeyError as error:
            raise ValueError(
                f"alphabet must hold every character of an item; it lacks {error.args[0]!r} of "
                f'{text[:40]!r}: use tokens = "bytes", or leave the document out.'
            ) from None

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.characters[k - 1] for k in ids if k)


class Bytes(Alphabet):
    """UTF-8: any text whatever; id 256 opens."""

    size, opening = 257, 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(k for k in ids if k < 256).decode(errors="replace")


class Tokens(Alphabet):
    """The tokeniser of a Hugging Face folder; a text opens with its bos, or else its eos."""

    def __init__(self, tokenizer: Any, size: int):
        self.tokenizer, self.size = tokenizer, size
        opening = tokenizer.bos_token_id
        opening = tokenizer.eos_token_id if opening is None else opening
        if opening is None:
            raise ValueError(
                "tokeniser must have a bos or an eos token, which stands before each item; it has "
                "neither: set one in tokenizer_config.json."
            )
        self.opening = int(opening)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        kept = [int(k) for k in ids if k != self.opening]
        return self.tokenizer.decode(kept, clean_up_tokenization_spaces=False)
