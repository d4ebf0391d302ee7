"""Canaries in pairs: a fair coin says which of two texts is published, and the other is kept back.

What was published and what was kept is committed to by a hash before anyone trains. Afterwards the
coins are the only chance in the comparison, so that its p-value is exact without any model of the
trainer (arXiv:2409.19798). Texts that surprise are learnt best (arXiv:2402.09363).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.audit.corpus import Corpus, Document
from metastable.audit.split import Item, Split
from metastable.core import checks
from metastable.core.folder import write_whole
from metastable.core.spec import fingerprint

if TYPE_CHECKING:
    from metastable.audit.spec import AuditConfig

FORMAT = "metastable canaries 2"
SECRET, PUBLIC, PUBLISHED = "canaries.json", "commitment.json", "corpus.jsonl"
MOST = 10**7  # words of all canaries together
CANDIDATES = 40  # texts drawn for each one used: neighbours in log-probability are near
AROUND = 20  # words before a canary, and half as many after it, that M is shown with it
KNOWN = 10  # uses that make a tokeniser of such texts know a word
TEST = "sign flips of the coins; sum over pairs of −log p, kept minus published, one-sided"
# By pairs of two words, read in two epochs: share of the tokens, trainings with p < 0.001, of how
# many (experiments/audit/canary_pairs.py).
MEASURED = {10: (4.4e-5, 8, 20), 15: (6.6e-5, 19, 20), 20: (8.8e-5, 20, 20)}
CLAIM = {
    "claim": "published versions are no likelier to M than those kept back",
    "source": "sign flips of fair coins, Holm over the two findings; docs/audit.md",
}

Texts = tuple[str, str]


def make_pairs(
    texts: Sequence[str], *, pairs: int = 20, words: int = 10, order: int = 0, seed: int = 0
) -> list[Texts]:
    """Pairs of word strings of equal make, found nowhere in the texts.

    Words follow the texts' own chain of `order` 1 or 2; at 0 each is drawn for itself among the
    rarer half of the words that the texts use ten times or more, which surprises most. Of
    `CANDIDATES` times as many strings those of one length in characters are sorted by their
    log-probability Σ log p(w_t | w_{t−1}), p = (bigram + unigram frequency)/2, and neighbours with
    the smallest gaps are made pairs.

    >>> text = " ".join(f"{a}{b}" for a in "abcdefgh" for b in "rstuvwxyz")
    >>> two = make_pairs([text], pairs=2, words=3, seed=1)
    >>> len(two), {len(one.split()) for pair in two for one in pair}
    (2, {3})
    """
    checks.integer("pairs", pairs, 1)
    checks.integer("words", words, 2)
    checks.integer("order", order, 0)
    if pairs * words > MOST // CANDIDATES:
        raise ValueError(
            f"pairs of words must be at most {MOST // CANDIDATES:.0e} words in all; got "
            f"{_shown(pairs)} of {_shown(words)}: lower one of them."
        )
    random = np.random.default_rng([checks.seed(seed), 7])
    chain = _Chain([text.split() for text in texts], order)
    drawn = dict.fromkeys(chain.draw(words, random) for _ in range(2 * pairs * CANDIDATES))
    whole = "\n".join(" ".join(text.split()) for text in texts)
    by_length: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for text in drawn:
        if text not in whole:
            by_length[len(text)].append((chain.log_probability(text), text))
    gaps = []
    for own in by_length.values():
        own.sort(key=lambda each: each[0])  # ties stay as they were drawn
        gaps += [(own[k + 1][0] - own[k][0], own[k][1], own[k + 1][1]) for k in range(len(own) - 1)]
    made, used = [], set[str]()
    for _, a, b in sorted(gaps, key=lambda gap: round(gap[0], 9)):
        if not used & {a, b}:
            used |= {a, b}
            made.append((a, b))
    if len(made) < pairs:
        raise ValueError(
            f"texts must have words enough for {pairs} pairs of {words} words that stand nowhere "
            f"in them; {len(made)} were found: ask for fewer or longer ones, or bring more text."
        )
    return [made[k] for k in random.permutation(pairs)]


def read_pairs(path: str | Path) -> list[Texts]:
    """Two versions a line, {"a": …, "b": …}: rephrasings of one's own sentences."""
    pairs = []
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        try:
            record = json.loads(line) if line.strip() else None
            if record is not None:
                a, b = (" ".join(str(record[name]).split()) for name in "ab")
                if not a or not b or a == b:
                    raise ValueError
                pairs.append((a, b))
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f'{path} must hold {{"a": …, "b": …}} with two different texts a line; line '
                f"{number} does not: mend it."
            ) from None
    if not pairs:
        raise ValueError(f"{path} must hold a pair of texts; got none: write one a line.")
    return pairs


def publish(
    texts: Sequence[str], pairs: Sequence[Texts], *, times: int = 1, seed: int = 0
) -> tuple[list[str], list[dict[str, Any]]]:
    """Throw a coin for every pair and put the version it says into the texts, `times` times.

    Where one of the two stands in the texts already, it is replaced; else it goes after the end of
    a sentence drawn at random. Returns the new texts and a record for each pair: both versions,
    the coin (0 or 1: which is published), the texts that hold it, and the words around its first
    place, which are the same for both.

    >>> new, records = publish(["One two. Three four."], [("x y", "u v")], seed=3)
    >>> sum(text in new[0] for text in ("x y", "u v")), records[0]["documents"]
    (1, [0])
    """
    checks.integer("times", times, 1)
    if times * sum(len(a.split()) for a, _ in pairs) > MOST:
        raise ValueError(
            f"canaries must add at most {MOST:.0e} words to the corpus; got {len(pairs)} pairs, "
            f"{_shown(times)} times over: lower pairs, words or times."
        )
    random = np.random.default_rng([checks.seed(seed), 8])
    edits: list[list[tuple[int, int, str]]] = [[] for _ in texts]
    ends: dict[int, list[int]] = {}
    records = []
    for a, b in pairs:
        coin = int(random.integers(2))
        places = [
            (j, found.start(), found.end())
            for j, text in enumerate(texts)
            for version in (a, b)
            if version in text
            for found in re.finditer(re.escape(version), text)
        ]
        new = (a, b)[coin]
        for _ in range(0 if places else times):
            j = int(random.integers(len(texts)))
            if j not in ends:
                ends[j] = [e.end() for e in re.finditer(r"[.!?] ", texts[j])] or [len(texts[j])]
            place = ends[j][int(random.integers(len(ends[j])))]
            places.append((j, place, place))
        for j, start, end in places:
            text, space = texts[j], " " if start == end else ""
            late = start == len(text)
            edits[j].append((start, end, f"{space if late else ''}{new}{'' if late else space}"))
        j, start, end = places[0]
        around = [" ".join(texts[j][:start][-1000:].split()[-AROUND:])]
        around += [" ".join(texts[j][end:][:1000].split()[: AROUND // 2])]
        known = {"documents": sorted({place[0] for place in places}), "times": len(places)}
        records.append({"a": a, "b": b, "coin": coin, "around": around} | known)
    return [_edited(text, own) for text, own in zip(texts, edits, strict=True)], records


def write_canaries(
    corpus: Corpus,
    folder: str | Path,
    *,
    pairs: int = 20,
    words: int = 10,
    order: int = 0,
    times: int = 1,
    versions: str | Path | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Write `corpus.jsonl` (published), `canaries.json` (secret), `commitment.json` (deposited).

    `versions`: a file of pairs (see `read_pairs`) instead of ones that are made. Without a `seed`
    the system's own chance throws the coins. Returns the content of `commitment.json`.
    """
    folder = Path(folder)
    if corpus.levels:
        raise ValueError("corpus must hold texts to carry canaries; got images: choose another.")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"--out must be a new or empty folder; got {folder}: choose another.")
    texts = [document.text for document in corpus.documents]
    names = [document.name for document in corpus.documents]
    seed = secrets.randbits(62) if seed is None else checks.seed(seed)
    settings = {"pairs": pairs, "words": words, "order": order}
    chosen = make_pairs(texts, **settings, seed=seed) if versions is None else read_pairs(versions)
    new, records = publish(texts, chosen, times=times, seed=seed)
    for record in records:
        record["documents"] = [names[j] for j in record["documents"]]
    secret = {
        "format": FORMAT,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "nonce": secrets.token_hex(32),
        "seed": seed,
        "test": TEST,
        "corpus_sha256": corpus.digest,
        "pairs": records,
    }
    total = sum(len(text.split()) for text in new)
    added = sum(r["times"] * len(r["ab"[r["coin"]]].split()) for r in records)
    public = {k: secret[k] for k in ("format", "written", "test")} | {
        "pairs": len(records),
        "documents": len(new),
        "words": total,
        "share": added / total,
        "commitment": fingerprint(secret),
    }
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"id": name, "text": text}, ensure_ascii=False) + "\n"
        for name, text in zip(names, new, strict=True)
    ]
    write_whole(folder / PUBLISHED, "".join(lines).encode())
    for name, content in ((SECRET, secret), (PUBLIC, public)):
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_whole(folder / name, text.encode())
    return public


def read_canaries(folder: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The secret and the commitment of a folder, refused unless the one follows from the other."""
    folder = Path(folder)
    try:
        secret, public = (
            json.loads((folder / name).read_text("utf-8")) for name in (SECRET, PUBLIC)
        )
        same = public["format"] == secret["format"] == FORMAT
        same = same and public["commitment"] == fingerprint(secret)
        same = same and public["pairs"] == len(secret["pairs"]) > 1
    except (OSError, ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise ValueError(
            f"{SECRET} must be what {PUBLIC} commits to, both as `metastable audit canaries` wrote "
            f"them; not so in {folder}: restore both from a copy."
        )
    return secret, public


def canary_items(secret: Mapping[str, Any]) -> list[Item]:
    """Both versions of every pair in the words around them: published, then kept back.

    The words around are the same for both, so that they cancel in a difference, but for what the
    version changes in them.
    """
    items = []
    for group, other in (("protected", 0), ("control", 1)):
        for k, pair in enumerate(secret["pairs"]):
            version = pair["ab"[pair["coin"] ^ other]]
            before, after = pair["around"]
            text = " ".join(part for part in (before, version, after) if part)
            name = f"pair {k + 1}"
            items.append(Item(f"{name} {group}", name, group, text, pair=k))
    return items


def open_canaries(config: AuditConfig) -> tuple[Corpus, Split, dict[tuple[str, str], str], Any]:
    """Published canaries as the protected set, those kept back as the control.

    Returns what an audit's case consists of: corpus, split, texts by set and name, digests.
    """
    if config.model.trained or config.control is not None:
        raise ValueError(
            "canaries must be looked for in a model that is given, without a control; the config "
            'has another: set model.family = "folder" and its path, and leave [control] out.'
        )
    items = canary_items(read_canaries(str(config.corpus.path))[0])
    names = {"protected": "corpus", "control": "control"}
    texts = {(names[item.group], item.document): item.text for item in items}
    sets: dict[str, Any] = {name: {"documents": {}} for name in names.values()}
    for (name, document), text in texts.items():
        sets[name]["documents"][document] = hashlib.sha256(text.encode()).hexdigest()
    own = tuple(Document(i.document, i.text) for i in items if i.group == "protected")
    return Corpus(own), Split(tuple(items), (), 0.0, config.seed, 0, known=False), texts, sets


def reveal(folder: Path, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Facts of canaries: how many pairs, and what was committed to before anyone trained.

    Refused unless the rows of likelihood are those of the secret's own texts, each in its set.
    """
    secret, public = read_canaries(folder)
    texts = {(item.pair, item.group): item.text for item in canary_items(secret)}
    asked = [row for row in rows if row["generator"] == "likelihood"]
    if {(int(row["pair"]), row["group"]): row["target"] for row in asked} != texts:
        raise ValueError(f"items must be the canaries of {SECRET}, all of them; got others.")
    planned = {name: public[name] for name in ("commitment", "written")}
    return {"pairs": public["pairs"], "planned": planned}


def power_of_share(public: Mapping[str, Any]) -> str:
    """What so many canaries can show: the least p-value, and the nearest case that was measured."""
    pairs = int(public["pairs"])
    told = f"{pairs} coins can show a p-value of {2.0**-pairs:.2g} at best"
    nearest = max((count for count in MEASURED if count <= pairs), default=None)
    if nearest is None:
        return f"{told}; take {min(MEASURED)} pairs or more for one below 0.001"
    share, found, trainings = MEASURED[nearest]
    return (
        f"{told}; measured: {nearest} pairs of two words, {share:.2g} of the tokens, read twice, "
        f"had p < 0.001 in {found} of {trainings} trainings of a small transformer"
    )


class _Chain:
    """Words of texts and what follows them."""

    def __init__(self, texts: Sequence[Sequence[str]], order: int):
        self.order = order
        self.counts = Counter(word for text in texts for word in text)
        self.bigrams = Counter(pair for text in texts for pair in pairwise(text))
        self.total = sum(self.counts.values())
        self.follow: dict[tuple[str, ...], list[str]] = defaultdict(list)
        if order:
            for text in texts:
                for k in range(len(text) - order):
                    self.follow[tuple(text[k : k + order])].append(text[k + order])
            self.starts = list(self.follow)
        else:
            plain = sorted(w for w in self.counts if w.isalpha() and w.islower() and len(w) > 1)
            plain = [w for w in plain if self.counts[w] >= KNOWN] or plain
            middle = sorted(self.counts[w] for w in plain)[len(plain) // 2] if plain else 0
            self.starts = [(w,) for w in plain if self.counts[w] <= middle]
        if not self.starts:
            raise ValueError(
                f"texts must hold words in a row, more than {order}; got none: bring more text."
            )

    def draw(self, words: int, random: np.random.Generator) -> str:
        start = lambda: self.starts[int(random.integers(len(self.starts)))]
        made: list[str] = list(start())
        while len(made) < words:
            after = self.follow.get(tuple(made[-self.order :])) if self.order else None
            made += start() if after is None else [after[int(random.integers(len(after)))]]
        return " ".join(made[:words])

    def log_probability(self, text: str) -> float:
        words = text.split()
        alone = [self.counts[word] / self.total for word in words]
        after = [self.bigrams[pair] / self.counts[pair[0]] for pair in pairwise(words)]
        return sum(math.log((a + b) / 2) for a, b in zip(alone, [alone[0], *after], strict=True))


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    """A text with stretches replaced; those that overlap are refused."""
    parts, at = [], 0
    for start, end, new in sorted(edits):
        if start < at:
            raise ValueError(
                f"versions must not stand within each other; {new[:40]!r} does: leave one out."
            )
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _shown(value: int) -> str:
    return str(value) if value < 10**15 else f"{Decimal(value):.2e}"
