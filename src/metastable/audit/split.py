"""Who is trained on, who is protected, who is compared with: documents dealt out at random.

Protected items and controls are drawn together, before anyone knows which is which: then only what
M has learned can tell them apart. Members are the share ρ of protected documents that M is trained
on. All windows of a document share its fate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metastable.audit.corpus import Corpus, Document, plural
from metastable.core import checks

Window = tuple[str, str]
Drawn = tuple[Document, list[tuple[int, str, str]]]

NGRAM = 24  # characters: longer than a stock phrase, half of a window of 48
PROBES = 20  # passages of a control document that are looked for in the corpus


@dataclass(frozen=True)
class Item:
    """A passage to be elicited."""

    name: str
    document: str
    group: str  # "member", "protected" (not a member) or "control"
    text: str
    before: str = ""  # what stands before it in its document, as far as M may have been shown it
    pair: int | None = None  # of a canary: published and kept back have one number


@dataclass(frozen=True)
class Split:
    """Items, and the windows M is trained on: the background, and the members among the items.

    A window is a pair: what stands before it, and its text. `known` is False for a model trained
    elsewhere: then members cannot be told, and every protected item has group "protected".
    """

    items: tuple[Item, ...]
    background: tuple[Window, ...]
    overlap: float
    seed: int
    ngram: int
    known: bool = True

    @property
    def training(self) -> tuple[Window, ...]:
        return self.background + tuple((i.before, i.text) for i in self.group("member"))

    def group(self, *names: str) -> list[Item]:
        return [item for item in self.items if item.group in names]

    def to_dict(self) -> dict[str, Any]:
        """What is where: documents and items by group, with a digest of each text."""
        groups = ("member", "protected", "control")
        documents = {name: sorted({i.document for i in self.group(name)}) for name in groups}
        return {
            "overlap": self.overlap if self.known else None,
            "seed": self.seed,
            "ngram": self.ngram,
            "documents": documents,
            "items": [
                {"item": i.name, "document": i.document, "group": i.group, "sha256": _sha(i.text)}
                for i in self.items
            ],
            "background": [_sha(before + text) for before, text in self.background],
        }


def deal(
    corpus: Corpus,
    *,
    items: int = 80,
    controls: int = 80,
    background: int = 240,
    length: int = 48,
    lead: int = 0,
    per_document: int = 1,
    overlap: float = 0.5,
    ngram: int | None = None,
    stride: int | None = None,
    seed: int = 0,
    control: Corpus | None = None,
    known: bool = True,
) -> Split:
    """Deal a corpus out into protected items, controls and background.

    `items`, `controls` and `background` count windows of `length` characters, `per_document` of
    them from a document of the first two; a document that is shorter counts whole. M is shown up
    to `lead` characters before a window too, as a model is that reads a document through. No two
    windows share `ngram` characters in a row (24; whole images). `control` is another corpus to
    take the controls from: then matching is up to whoever chose it, and the blind classifier will
    tell.
    With `known` False nothing is trained, and there is no background. With `stride` the items of a
    document are all its windows so many characters apart, whatever they share, and `items` and
    `controls` count documents, at most.

    >>> corpus = Corpus.of(Document(f"d{k}", chr(97 + k) * 8) for k in range(20))
    >>> split = deal(corpus, items=6, controls=6, background=8, length=8, overlap=0.5)
    >>> [len(split.group(name)) for name in ("member", "protected", "control")]
    [3, 3, 6]
    >>> len(split.training)
    11
    """
    for name, value in (("items", items), ("controls", controls), ("per_document", per_document)):
        checks.integer(name, value, 1, "Empty sets show nothing.")
    checks.integer("length", length, 2)
    checks.integer("lead", lead, 0)
    if not 0.0 <= checks.real("overlap", overlap) <= 1.0:
        raise ValueError(f"overlap must lie in [0, 1]; got {overlap}.")
    n = checks.integer("ngram", ngram or (10**9 if corpus.levels else NGRAM), 2)
    random = np.random.default_rng([checks.seed(seed), 1])
    pool = [corpus.documents[k] for k in random.permutation(len(corpus.documents))]
    taken: set[str] = set()
    cut = _Cut(length, lead, random)
    slide = None if stride is None else replace(cut, stride=checks.integer("stride", stride, 1))
    wanted = [-(-items // per_document), -(-controls // per_document)]

    if control is None:
        if slide is not None and len(pool) < sum(wanted):  # both sides give up alike
            wanted = [len(pool) * own // sum(wanted) for own in wanted]
        drawn, rest = _draw(pool, sum(wanted), per_document, slide or cut, n, taken)
        protected, held = drawn[: wanted[0]], drawn[wanted[0] :]
    else:
        _refuse_known(corpus, control, length, n)
        if slide is not None:
            wanted = [min(wanted[0], len(pool)), min(wanted[1], len(control.documents))]
        protected, rest = _draw(pool, wanted[0], per_document, slide or cut, n, taken)
        others = [control.documents[k] for k in random.permutation(len(control.documents))]
        held, _ = _draw(
            others, wanted[1], per_document, slide or cut, n, taken, where="the control"
        )

    members = round(overlap * wanted[0]) if known else 0
    if known and overlap > 0 and members == 0:
        raise ValueError(
            f"overlap {overlap} of {wanted[0]} protected documents must be at least one document; "
            "it rounds to none: raise items or the overlap."
        )
    counts = items, items - members * per_document, controls
    most = counts if slide is None else (None, None, None)
    chosen = [
        *_items(protected[:members], "member", most[0]),
        *_items(protected[members:], "protected", most[1]),
        *_items(held, "control", most[2]),
    ]
    windows = _spread(rest, background, cut, n, taken) if known else ()
    return Split(tuple(chosen), tuple(windows), float(overlap), seed, n, known)


def ngrams(text: str, n: int) -> set[str]:
    """Runs of n characters of a text; the text itself where it is shorter."""
    return {text[k : k + n] for k in range(max(1, len(text) - n + 1))}


@dataclass(frozen=True)
class _Cut:
    """Cuts a document into windows of one length, each with what stands before.

    Side by side, in random order; with a stride so far apart and in order, the last at the end.
    """

    length: int
    lead: int
    random: np.random.Generator
    stride: int | None = None

    def __call__(self, document: Document) -> Iterator[tuple[int, str, str]]:
        text = document.text
        if self.stride is not None:
            last = len(text) - self.length
            if last < 0:
                raise ValueError(
                    f"documents must be at least as long as a window of {self.length} characters "
                    f"where windows slide; {document.name!r} has {len(text)}: leave it out, or "
                    "lower split.length."
                )
            for s in [*range(0, last, self.stride), last]:
                yield s, text[max(0, s - self.lead) : s], text[s : s + self.length]
            return
        first = self.lead if len(text) >= self.lead + self.length else 0
        starts = np.arange(first, max(1, len(text) - self.length + 1), self.length)
        for s in self.random.permutation(starts).tolist():
            yield s, text[max(0, s - self.lead) : s], text[s : s + self.length]


def _draw(
    pool: Sequence[Document],
    wanted: int,
    per_document: int,
    cut: _Cut,
    n: int,
    taken: set[str],
    where: str = "the corpus",
) -> tuple[list[Drawn], list[Document]]:
    """`wanted` documents with windows free of `taken` n-grams, and the documents not used."""
    drawn: list[Drawn] = []
    rest: list[Document] = []
    for document in pool:
        if len(drawn) == wanted:
            rest.append(document)
            continue
        if cut.stride is not None:
            windows = list(cut(document))
            drawn.append((document, windows))
            taken.update(*(ngrams(before + text, n) for _, before, text in windows))
            continue
        own: list[tuple[int, str, str]] = []
        grams: set[str] = set()
        for start, before, text in cut(document):
            fresh = ngrams(before + text, n)
            if fresh.isdisjoint(taken) and fresh.isdisjoint(grams):
                own.append((start, before, text))
                grams |= fresh
            if len(own) == per_document:
                break
        if len(own) == per_document:
            drawn.append((document, own))
            taken |= grams
        else:
            rest.append(document)
    if len(drawn) < wanted:
        need, fewer = "items and controls", "ask for fewer items"
        if where == "the control":
            need, fewer = "controls", f"set controls = {len(drawn) * per_document}"
        raise ValueError(
            f"{need} need {plural(wanted, 'document')} with "
            f"{plural(per_document, 'window')} of {cut.length} characters not found elsewhere; "
            f"{where} has {len(drawn)}: {fewer}, more per_document, a shorter length, or bring "
            "more documents."
        )
    return drawn, rest


def _items(drawn: Sequence[Drawn], group: str, most: int | None) -> list[Item]:
    made = [
        Item(f"{document.name}:{start}", document.name, group, text, before)
        for document, windows in drawn
        for start, before, text in windows
    ]
    return made if most is None else made[: max(most, 0)]


def _spread(
    rest: Sequence[Document], wanted: int, cut: _Cut, n: int, taken: set[str]
) -> list[Window]:
    """Background windows, as many as possible from each document, none with a taken n-gram."""
    checks.integer("background", wanted, 1, "A model needs something to be trained on.")
    queues = [cut(document) for document in rest]
    windows: list[Window] = []
    texts: set[str] = set()
    while queues and len(windows) < wanted:
        for queue in list(queues):
            window = next(queue, None)
            if window is None:
                queues.remove(queue)
                continue
            _, before, text = window
            if text not in texts and ngrams(before + text, n).isdisjoint(taken):
                texts.add(text)
                windows.append((before, text))
    if len(windows) < wanted:
        raise ValueError(
            f"background needs {plural(wanted, 'window')} of documents that are neither protected "
            f"nor control (240 unless split.background says otherwise); {len(windows)} are left: "
            + (f"set split.background = {len(windows)}, " if windows else "")
            + "lower items or controls, or bring more documents."
        )
    return windows[:wanted]


def _refuse_known(corpus: Corpus, control: Corpus, length: int, n: int) -> None:
    """Refuse controls that stand in the corpus: they may have been trained on."""
    same = {d.text for d in corpus.documents} & {d.text for d in control.documents}
    if same:
        first = next(d for d in control.documents if d.text in same)
        own = next(d.name for d in corpus.documents if d.text == first.text)
        raise ValueError(
            f"protected and control sets must not overlap; {plural(len(same), 'text')} of one "
            f"{'is' if len(same) == 1 else 'are'} in the other too, such as protected {own!r}, the "
            f"same as control {first.name!r}: take them out of one."
        )
    # Every n-th n-gram: a window found whole holds one of them, and millions need not be kept.
    grams = {d.text[k : k + n] for d in corpus.documents for k in range(0, len(d.text), n)}
    found: list[tuple[str, int, int, str]] = []
    for document in control.documents:
        text = document.text
        starts = range(0, len(text), max(length, len(text) // PROBES))
        windows = [text[s : s + length] for s in starts]
        known = [w for w in windows if not ngrams(w, n).isdisjoint(grams)]
        if 2 * len(known) > len(windows):
            found.append((document.name, len(known), len(windows), known[0][:40]))
    if found:
        name, known, count, first = found[0]
        names = ", ".join(repr(each[0]) for each in found[1:9])
        more = "" if not names else f"; likewise {names}{', …' * (len(found) > 9)}"
        out = "that document" if len(found) == 1 else f"these {len(found)} documents"
        raise ValueError(
            f"control must not be found in training; {known} of {count} passages of {name!r} share "
            f"{n} characters in a row or more with the corpus, such as {first!r}{more}: leave "
            f"{out} out of the control, or raise split.ngram where these are common phrases."
        )


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
