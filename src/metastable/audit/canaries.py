"""Traps: texts made at random and put into a corpus before anyone trains on it.

Which of them were put in is decided by chance, so the null is known without any model of the
trainer: a trap that was put in ranks among those that were not as if drawn from them. That is what
makes the inference sound (arXiv:2409.19798); more repeats make it stronger (arXiv:2402.09363).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metastable.audit.corpus import Corpus
from metastable.core import checks
from metastable.core.progress import Bar

ORDER = 2  # characters that the next one depends on: pronounceable, and found nowhere
MOST = 10**8  # characters of all traps together: minutes of drawing, and below a gigabyte


@dataclass(frozen=True)
class Traps:
    """Texts that were put in, and texts of the same make that were not."""

    inserted: tuple[str, ...]
    references: tuple[str, ...]
    seed: int


def make_traps(
    texts: Sequence[str], *, inserted: int, references: int = 1000, length: int = 48, seed: int = 0
) -> Traps:
    """Draw traps from a chain over the corpus' own characters, each from the two before it.

    No two are equal and none stands in the corpus; then chance says which are put in. Every
    character has been seen in the corpus, so any of its tokenizers can write them.

    >>> traps = make_traps(["the state of the union is strong"], inserted=2, references=5, length=9)
    >>> len(traps.inserted), len(traps.references), {len(t) for t in traps.references}
    (2, 5, {9})
    """
    checks.integer("inserted", inserted, 1)
    checks.integer("references", references, 1)
    checks.integer("length", length, ORDER + 1)
    checks.seed(seed)
    wanted = inserted + references
    if wanted * length > MOST:
        raise ValueError(
            f"inserted + references traps of length characters must be at most {MOST:.0e} "
            f"characters in all; got {_shown(wanted)} of {_shown(length)}: lower one of them."
        )
    chain: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        for k in range(len(text) - ORDER):
            chain[text[k : k + ORDER]].append(text[k + ORDER])
    starts = sorted(pair for pair in chain if not pair[0].isspace())
    if not starts:
        raise ValueError(f"texts must hold a text of more than {ORDER} characters; got none.")
    possible = _count_traps(chain, starts, length, wanted)
    if possible < wanted:
        raise ValueError(
            f"inserted + references must be at most the {possible} traps that {length} characters "
            f"of these texts can make; got {wanted}: make them longer, or fewer."
        )
    random = np.random.default_rng([seed, 7])
    drawn: dict[str, None] = {}
    with Bar("traps") as bar:
        for _ in range(50 * wanted):
            trap = starts[random.integers(len(starts))]
            while len(trap) < length:
                # The end of a text may be a pair that nothing follows: then anything does.
                after = chain.get(trap[-ORDER:]) or [starts[random.integers(len(starts))][0]]
                trap += after[random.integers(len(after))]
            if not trap[-1].isspace() and not any(trap in text for text in texts):
                drawn[trap] = None
                bar.update(len(drawn) / wanted)
            if len(drawn) == wanted:
                break
    if len(drawn) < wanted:
        raise ValueError(
            f"length and texts must allow {wanted} different traps; "
            f"{len(drawn)} were found: make them longer, or fewer."
        )
    listed = list(drawn)
    mixed = [listed[k] for k in random.permutation(wanted)]
    return Traps(tuple(mixed[:inserted]), tuple(mixed[inserted:]), seed)


def insert_traps(
    texts: Sequence[str], traps: Sequence[str], *, times: int = 10, seed: int = 0
) -> tuple[list[str], list[list[int]]]:
    """Put each trap in `times` times, between words of texts drawn at random.

    Returns the new texts, and for each trap the numbers of the texts that hold it.

    >>> new, where = insert_traps(["one two three", "four five"], ["XYZ"], times=2)
    >>> sum(text.count("XYZ") for text in new), len(where[0])
    (2, 2)
    """
    _refuse_many(times, sum(map(len, traps)))
    random = np.random.default_rng([checks.seed(seed), 8])
    words = [text.split(" ") for text in texts]
    gaps: list[dict[int, list[str]]] = [defaultdict(list) for _ in texts]
    where = []
    for trap in traps:
        chosen = random.integers(len(texts), size=times).tolist()
        for k in chosen:
            gaps[k][int(random.integers(len(words[k]) + 1))].append(trap)
        where.append(sorted(chosen))
    new = [
        " ".join(p for k in range(len(own) + 1) for p in (*added.get(k, ()), *own[k : k + 1]))
        for own, added in zip(words, gaps, strict=True)
    ]
    return new, where


def exposure(nll: float, references: ArrayLike) -> float:
    """log₂|R| − log₂ rank of a trap among those that were not put in (arXiv:1802.08232).

    R holds the trap too; rank 1 is the likeliest, and ties count against the trap. From 0 to
    log₂|R|; about 1.44 on average if M never saw it.

    >>> exposure(0.5, [1.0, 2.0, 3.0]), round(exposure(2.5, [1.0, 2.0, 3.0]), 3)
    (2.0, 0.415)
    """
    rank, size = _rank(nll, references)
    return math.log2(size) - math.log2(rank)


def rank_p(nll: float, references: ArrayLike) -> float:
    """rank/|R|: how often chance alone ranks a trap as high. Exact, since chance put it in.

    >>> rank_p(0.5, [1.0, 2.0, 3.0])
    0.25
    """
    rank, size = _rank(nll, references)
    return rank / size


def write_trapped(
    corpus: Corpus,
    folder: str | Path,
    *,
    inserted: int = 20,
    references: int = 1000,
    length: int = 48,
    times: int = 10,
    seed: int = 0,
) -> dict[str, Any]:
    """Write `corpus.jsonl`, to train on, and `canaries.json`, to be kept secret; return counts."""
    folder = Path(folder)
    for name, count in (("inserted", inserted), ("length", length)):
        checks.integer(name, count, 1)
    _refuse_many(times, inserted * length)
    if corpus.levels:
        raise ValueError("corpus must hold texts to carry traps; got images: choose another.")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"--out must be a new or empty folder; got {folder}: choose another.")
    texts = [document.text for document in corpus.documents]
    traps = make_traps(texts, inserted=inserted, references=references, length=length, seed=seed)
    new, where = insert_traps(texts, traps.inserted, times=times, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    names = [document.name for document in corpus.documents]
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for name, text in zip(names, new, strict=True):
            file.write(json.dumps({"id": name, "text": text}, ensure_ascii=False) + "\n")
    placed = [
        {"text": trap, "documents": [names[k] for k in own]}
        for trap, own in zip(traps.inserted, where, strict=True)
    ]
    secret = {"seed": seed, "times": times, "inserted": placed}
    secret |= {"references": list(traps.references)}
    text = json.dumps(secret, indent=2, ensure_ascii=False) + "\n"
    (folder / "canaries.json").write_text(text, encoding="utf-8")
    counts = {"documents": len(new), "inserted": inserted, "references": references, "times": times}
    return counts | {"most_exposure": math.log2(references + 1), "out": str(folder)}


def _count_traps(
    chain: Mapping[str, Sequence[str]], starts: Sequence[str], length: int, enough: int
) -> int:
    """Number of texts of a length that the chain can write, or `enough` as soon as there are.

    Every pair has a follower, so that the number never falls with the length; and where it has
    stayed for more steps than there are pairs, it stays.
    """
    anything = {pair[0] for pair in starts}
    follow = {pair: set(after) for pair, after in chain.items()}
    ways = dict.fromkeys(starts, 1)
    total, since = len(starts), 0
    for _ in range(length - ORDER):
        longer: dict[str, int] = defaultdict(int)
        for pair, count in ways.items():
            for letter in follow.get(pair, anything):
                longer[(pair + letter)[-ORDER:]] += count
        ways, before, total = longer, total, sum(longer.values())
        since = since + 1 if total == before else 0
        if total >= enough or since > len(follow):
            break
    return min(total, enough)


def _refuse_many(times: int, characters: int) -> None:
    """Refuse to put traps of so many characters in so often."""
    checks.integer("times", times, 1)
    if times * characters > MOST:
        raise ValueError(
            f"traps must add at most {MOST:.0e} characters to the corpus; got "
            f"{_shown(characters)}, {_shown(times)} times over: lower inserted, length or times."
        )


def _shown(value: int) -> str:
    return str(value) if value < 10**15 else f"{Decimal(value):.2e}"


def _rank(nll: float, references: ArrayLike) -> tuple[int, int]:
    """The rank of a trap among the references and itself, and how many those are."""
    checks.finite_array("references", references, 1)
    others = np.asarray(references, float)
    return 1 + int(np.sum(others <= checks.real("nll", nll))), len(others) + 1
