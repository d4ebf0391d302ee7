"""What is no evidence of copying: passages that stand in other texts, or that others write too.

A passage is set aside where half of it stands in other documents of the audit (or in texts that
the config calls public), its own work left out, or where another writer, given the same words,
writes it near-verbatim. It then counts as one that did not come out. The rule looks at texts and at
other writers, never at the set of a passage: what it sets aside stays the same when documents are
relabelled, so that the permutation test remains exact. Comparing with the control alone would not
do: stock phrases of the control would go, and those of the protected set stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metastable.audit.alphabet import Alphabet, Tokens
from metastable.audit.evidence import NEAR, is_near, set_aside
from metastable.audit.scores import edit
from metastable.audit.split import Item
from metastable.audit.suffixes import BORDER, Index, code_points, run_classes
from metastable.audit.target import Target
from metastable.audit.works import work_of

if TYPE_CHECKING:
    from metastable.audit.case import AuditCase

Row = dict[str, Any]
Text = tuple[str, str]  # the work it is of, and the text

RUN = 40  # characters, about eight words: a shorter run may be anyone's
ORDER = 5  # of the n-gram model, in tokens; where these are characters, about as many words
LETTERS = 5  # characters of a word
LONGEST = 20_000  # characters of a document that the n-gram model counts


def shared_places(texts: Sequence[Text], pool: Sequence[Text]) -> list[NDArray[np.bool_]]:
    """For each text, which of its characters lie in a run that stands in the pool too.

    Runs of `RUN` characters or more, in texts of the pool of another work than the text's own.
    """
    every = [*texts, *pool]
    names = {work: k for k, work in enumerate(dict.fromkeys(work for work, _ in every))}
    # A border of its own after each text: no run that holds one stands anywhere else.
    parts = [np.append(code_points(text), 0x110000 + k) for k, (_, text) in enumerate(every)]
    lengths = [len(part) for part in parts]
    classes = run_classes(np.concatenate(parts), RUN) if parts else np.zeros(0, np.int64)
    works = np.repeat([names[work] for work, _ in every], lengths)[: len(classes)]
    known = slice(sum(lengths[: len(texts)]), None)
    least = np.full(classes.max(initial=0) + 1, len(names))
    most = np.full(len(least), -1)
    np.minimum.at(least, classes[known], works[known])
    np.maximum.at(most, classes[known], works[known])
    elsewhere = (most[classes] >= 0) & ((least[classes] != works) | (most[classes] != works))
    steps = np.zeros(sum(lengths) + 1, int)
    starts = np.flatnonzero(elsewhere)
    steps[starts] += 1
    np.subtract.at(steps, starts + RUN, 1)
    inside = np.cumsum(steps) > 0
    ends = np.cumsum(lengths)[: len(texts)]
    return [inside[end - n : end - 1] for end, n in zip(ends, lengths, strict=False)]


class NGram:
    """A greedy n-gram model with back-off, over sequences of ids, each of a work.

    The next id is argmax_x count(c x), of ties the smallest, with c the longest context of at most
    `order` − 1 ids that some id follows outside the work left out.

    >>> NGram([("a", [1, 2, 3]), ("b", [1, 2, 4, 1, 2, 4])], order=3).write([1, 2], 2)
    [4, 1]
    """

    def __init__(self, texts: Sequence[tuple[str, Sequence[int]]], order: int = ORDER):
        self.order = order
        self.index = Index(["".join(map(chr, ids)) for _, ids in texts])
        self.works = np.array([work for work, _ in texts] or [""])
        self._codes = code_points(self.index.text)

    def write(self, prompt: Sequence[int], length: int, without: str | None = None) -> list[int]:
        """`length` ids after a prompt, or none where nothing is left to count."""
        left_out = self.works == without
        written = "".join(map(chr, prompt))
        while len(written) < len(prompt) + length:
            low, high = 0, min(len(written), self.order - 1)
            while low < high:  # a shorter context is followed wherever a longer one is
                middle = (low + high + 1) // 2
                if len(self._followers(written[-middle:], left_out)):
                    low = middle
                else:
                    high = middle - 1
            ids = self._followers(written[len(written) - low :], left_out)
            if not len(ids):
                break
            written += chr(np.bincount(ids).argmax())
        return [ord(c) for c in written[len(prompt) :]]

    def _followers(self, context: str, left_out: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Ids after a context, as often as they stand there."""
        places = self.index.positions(context) + len(context)
        places = places[places < len(self._codes)]
        places = places[~left_out[self.index.owner[places]]]
        ids = self._codes[places]
        return ids[ids != ord(BORDER)]


def mark_known(
    rows: Sequence[Row], case: AuditCase, alphabet: Alphabet | None, writers: Mapping[str, Target]
) -> list[Row]:
    """Rows with `common`, the share of a passage in other texts, and `also`, who else writes it.

    Other writers are asked where M wrote the passage near-verbatim after a prompt that is text:
    `writers` by name, and an n-gram model of the other documents.
    """
    if case.corpus.levels or case.config.corpus.kind == "canaries":  # no words to be shared
        return list(rows)
    items = {(item.group == "control", item.name): item for item in case.split.items}
    placed = {key: _place(case, item) for key, item in items.items()}
    pool = _pool(case)
    masks = shared_places([(work, text) for work, text, _ in placed.values()], pool)
    shares = {
        key: float(mask[first : first + len(items[key].text)].mean())
        for (key, (_, _, first)), mask in zip(placed.items(), masks, strict=True)
    }
    made, copied = [dict(row) for row in rows], []
    for row in made:
        key = row["group"] == "control", row["item"]
        if row["generator"] != "likelihood":
            row["common"] = shares[key]
            if row.get("prompt") and is_near(row):
                copied.append((row, placed[key][0]))
    if copied:
        _ask_others(copied, pool, alphabet, writers)
    return made


def describe_known(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Facts: how many passages of each set are set aside, and of them came out; none of old rows.

    A passage counts once, whatever the number of prompts.
    """
    if not any("common" in row for row in rows):
        return {}
    counts: dict[str, dict[str, set[str]]] = {
        side: {"passages": set(), "came_out": set()} for side in ("protected", "control")
    }
    for row in rows:
        if set_aside(row):
            own = counts["control" if row["group"] == "control" else "protected"]
            own["passages"].add(row["item"])
            if is_near(row):
                own["came_out"].add(row["item"])
    told = {side: {k: len(v) for k, v in own.items()} for side, own in counts.items()}
    return {"set_aside": told}


def _place(case: AuditCase, item: Item) -> tuple[str, str, int]:
    """The work of an item, its text with a run's length around it, and where it begins there."""
    side = _side(case, item)
    text, start = case.documents[side, item.document], int(item.name.rsplit(":", 1)[1])
    first = max(0, start - RUN + 1)
    around = text[first : start + len(item.text) + RUN - 1]
    return f"{side} {work_of(item.document)[0]}", around, start - first


def _pool(case: AuditCase) -> list[Text]:
    """Documents that have items, of both sets, and public ones, by work."""
    held = {(_side(case, item), item.document) for item in case.split.items}
    return [
        (f"{side} {work_of(name)[0]}", text)
        for (side, name), text in case.documents.items()
        if side == "public" or (side, name) in held
    ]


def _side(case: AuditCase, item: Item) -> str:
    return "control" if item.group == "control" and case.config.control else "corpus"


def _ask_others(
    copied: Sequence[tuple[Row, str]],
    pool: Sequence[Text],
    alphabet: Alphabet | None,
    writers: Mapping[str, Target],
) -> None:
    """Write into each row who else writes its passage after its prompt."""
    tokens = alphabet if isinstance(alphabet, Tokens) else None
    encode = tokens.encode if tokens else lambda text: [ord(c) for c in text]
    decode = tokens.decode if tokens else lambda ids: "".join(map(chr, ids))
    order = ORDER if tokens else ORDER * LETTERS
    counts = NGram([(work, encode(text[:LONGEST])) for work, text in pool], order)
    guesses = [
        counts.write(encode(row["prompt"]), len(encode(row["target"])), without=work)
        for row, work in copied
    ]
    rows = [row for row, _ in copied]
    outputs = {"an n-gram model of other documents": [decode(ids) for ids in guesses]}
    outputs |= {name: continue_texts(writer, rows) for name, writer in writers.items()}
    for k, row in enumerate(rows):
        also = [name for name, own in outputs.items() if _is_same(row["target"], own[k])]
        if also:
            row["also"] = ", ".join(also)


def continue_texts(writer: Target, rows: Sequence[Row]) -> list[str]:
    """What a model writes, greedily, after the prompts of rows, as much as their targets."""
    groups: dict[tuple[int, int], list[int]] = {}
    for k, row in enumerate(rows):
        sizes = [len(writer.alphabet.encode(row[name])) for name in ("prompt", "target")]
        groups.setdefault((sizes[0], sizes[1]), []).append(k)
    texts = [""] * len(rows)
    for (_, length), places in groups.items():
        vectors = writer.ahead([rows[k]["prompt"] for k in places])
        for k, ids in zip(places, writer.model.generate(vectors, length).tolist(), strict=True):
            texts[k] = writer.alphabet.decode(ids)
    return texts


def _is_same(target: str, output: str) -> bool:
    """Near-verbatim, in characters."""
    return edit([*map(ord, target)], [*map(ord, output[: len(target)])]) <= NEAR["edit"]
