"""Near-duplicates across sets: a control that repeats a protected text is no control."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from metastable.audit.corpus import plural
from metastable.audit.validity import Condition

WORDS = 5  # of a shingle
LONGEST = 40_000  # characters of a document that are compared
ALIKE = 0.3  # Jaccard index of shingles
WITHIN = 0.5  # share of the shorter document's shingles that stand in the longer one


def shingles(text: str) -> set[str]:
    """Runs of five words, in lower case and without punctuation; all words where there are fewer.

    >>> sorted(shingles("The State of the Union, today"))
    ['state of the union today', 'the state of the union']
    """
    words = re.findall(r"\w+", text[:LONGEST].lower())
    return {" ".join(words[k : k + WORDS]) for k in range(max(1, len(words) - WORDS + 1))}


def near_duplicates(
    protected: Mapping[str, str], control: Mapping[str, str]
) -> list[tuple[str, str, float]]:
    """Pairs of documents of the two sets that say nearly the same: (protected, control, Jaccard).

    Exact Jaccard index |A ∩ B| / |A ∪ B| of shingles, at least `ALIKE`; or one document, of eight
    shingles or more, that stands to at least `WITHIN` in the other. The most alike first.

    >>> text = "one two three four five six seven eight nine ten"
    >>> near_duplicates({"a": text, "b": "quite another text"}, {"c": text + " eleven"})
    [('a', 'c', 0.8571428571428571)]
    """
    own = {name: shingles(text) for name, text in protected.items()}
    holders: dict[str, list[str]] = defaultdict(list)
    for name, parts in own.items():
        for part in parts:
            holders[part].append(name)
    found = []
    for other, text in control.items():
        parts = shingles(text)
        shared = Counter(name for part in parts for name in holders.get(part, ()))
        for name, count in shared.items():
            sizes = len(own[name]), len(parts)
            alike = count / (sum(sizes) - count)
            if alike >= ALIKE or (min(sizes) >= 8 and count / min(sizes) >= WITHIN):
                found.append((name, other, alike))
    return sorted(found, key=lambda pair: -pair[2])


def check_duplicates(pairs: Sequence[tuple[str, str, float]]) -> Condition:
    """Whether no control repeats a protected document, by the pairs of `near_duplicates`."""
    told = "no control shares much of its wording with a protected document"
    if pairs:
        name, other, alike = pairs[0]
        told = (
            f"{plural(len(pairs), 'pair')} {'says' if len(pairs) == 1 else 'say'} nearly the same, "
            f"such as protected {name!r} and control "
            f"{other!r} (Jaccard {alike:.2f}): take them out of one set"
        )
    return Condition("no near-duplicates across sets", not pairs, told, {"pairs": len(pairs)})
