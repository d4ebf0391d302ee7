"""Reaction SMILES as tokens, for the models of chemistry whose folder is a plain vocabulary."""

from __future__ import annotations

import re
from pathlib import Path

# An atom in brackets, a two-letter halogen, an atom, a ring number, a bond, the arrow.
TOKEN = re.compile(r"\[[^\]]+\]|Br|Cl|>>|%\d\d|[BCNOPSFIbcnops0-9()=#+\-./\\:~@?*$>]")


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
        parts = TOKEN.findall(text)
        if "".join(parts) != text:
            odd = next(c for c in text if not TOKEN.fullmatch(c) and c not in "[]lr%")
            raise ValueError(f"text must be reaction SMILES for this model; got {odd!r} in it.")
        unknown = self.ids["[UNK]"]
        middle = [self.ids.get(part, unknown) for part in parts]
        return [self.ids["[CLS]"], *middle, self.ids["[SEP]"]]
