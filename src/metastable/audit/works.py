"""Whole works: cut into parts that are units of their own, and how much of each comes out.

A part is a document named "WORK @START"; windows slide over it, so that every character that has a
prefix before it in its part is asked for. That parts are exchangeable is an assumption, which the
page states: a work has subjects and names of its own, and neighbours resemble each other.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metastable.audit.corpus import Corpus, Document
from metastable.audit.evidence import Row, comes_out, number
from metastable.audit.split import Item
from metastable.audit.suffixes import Index
from metastable.audit.target import Target
from metastable.core.folder import write_whole
from metastable.models.own.decoding import Sample

if TYPE_CHECKING:
    from metastable.audit.case import AuditCase

ORDINARY = "ordinary.json"
SAMPLES = 20  # after each ordinary prompt
RUN = 40  # characters of a sample that must stand in the work in a row, about eight words
OPENING, LONGEST = 8, 80  # words of an opening, and characters at most
THRESHOLDS = (1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.5)
SIDES = {"corpus": "protected", "control": "control"}


def cut_works(corpus: Corpus, parts: int) -> Corpus:
    """Documents cut into consecutive parts of `parts` characters; a short end joins the last.

    >>> cut = cut_works(Corpus.of([Document("ode", "abcdefghij")]), 4)
    >>> [(d.name, d.text) for d in cut.documents]
    [('ode @0', 'abcd'), ('ode @4', 'efghij')]
    """
    if corpus.levels:
        raise ValueError("parts must be of texts; got images, which are units already: drop parts.")
    made = []
    for document in corpus.documents:
        text, last = document.text, max(1, round(len(document.text) / parts)) - 1
        for k in range(last + 1):
            end = None if k == last else (k + 1) * parts
            made.append(Document(f"{document.name} @{k * parts}", text[k * parts : end]))
    return Corpus(tuple(made), None, corpus.dropped)


def work_of(document: str) -> tuple[str, int]:
    """The work that a part is of, and where it begins there; a whole document begins at 0.

    >>> work_of("ode @400"), work_of("letter 7")
    (('ode', 400), ('letter 7', 0))
    """
    part = re.fullmatch(r"(.*) @(\d+)", document, re.DOTALL)
    return (part[1], int(part[2])) if part else (document, 0)


def join_works(case: AuditCase) -> dict[tuple[str, str], str]:
    """Works by set and name, from all their parts."""
    joined: dict[tuple[str, str], str] = {}
    for (side, name), text in case.documents.items():
        if side in SIDES:
            key = side, work_of(name)[0]
            joined[key] = joined.get(key, "") + text
    return joined


def thin_windows(items: Sequence[Item], most: int = 4) -> list[Item]:
    """At most so many windows of each document, evenly spread: enough where nothing must show."""
    documents: dict[tuple[bool, str], list[Item]] = {}
    for item in items:
        documents.setdefault((item.group == "control", item.document), []).append(item)
    return [item for own in documents.values() for item in own[:: -(-len(own) // most)]]


def work_lengths(case: AuditCase) -> dict[str, dict[str, int]]:
    """Characters of each work, by set and name."""
    lengths: dict[str, dict[str, int]] = {}
    for (side, name), text in join_works(case).items():
        lengths.setdefault(side, {})[name] = len(text)
    return lengths


@dataclass(frozen=True)
class Cover:
    """One work, character by character.

    `p` is the largest p_z of the windows whose suffix covers a character, NaN where none does, and
    p_z = Π_t p(z_t | z_1 … z_{t−1}) over the suffix after its prefix (arXiv:2410.19482; the largest
    of overlapping windows as in the book strips of arXiv:2505.12546). `out`: whether it lies in a
    suffix that came out near-verbatim, and is not set aside.
    """

    name: str
    side: str
    p: NDArray[np.float64]
    out: NDArray[np.bool_]
    asked: NDArray[np.bool_]

    def to_dict(self) -> dict[str, Any]:
        """Shares are of the characters that were asked for; the run joins windows that touch."""
        start, length = longest_run(self.out)
        count = max(int(self.asked.sum()), 1)
        share = lambda threshold: float(np.sum(self.p >= threshold)) / count
        return {
            "work": self.name,
            "set": self.side,
            "characters": len(self.p),
            "asked": float(self.asked.mean()),
            "coverage": None if np.isnan(self.p).all() else [share(t) for t in THRESHOLDS],
            "recall": float(self.out.sum()) / count,
            "longest_run": length,
            "longest_run_at": start,
        }


def window_p(row: Row) -> float | None:
    """p_z of a row after a prefix, from its mean −log p; None where M gave no likelihoods.

    The prefix of k tokens has k log₂ V bits, and the item log₂ V for each token of its own.
    """
    nll, bits, size = (number(row, name) for name in ("nll", "bits", "item_bits"))
    if nll is None or not bits or size is None:
        return None
    return math.exp(-nll * round(int(row["budget"]) * (size / bits - 1)))


def cover_works(
    rows: Sequence[Row], generator: str, budget: int, lengths: Mapping[str, Mapping[str, int]]
) -> list[Cover]:
    """Every work under the windows of one prompt; `lengths` by set ("corpus", "control")."""
    made = {}
    dealt = "control" not in lengths  # then parts of one corpus stand on both sides
    for side, works in lengths.items():
        for name, length in works.items():
            for group in ("corpus", "control") if dealt else (side,):
                arrays = np.full(length, np.nan), np.zeros(length, bool), np.zeros(length, bool)
                made[group, name] = Cover(name, SIDES[group], *arrays)
    for row in rows:
        if row["generator"] != generator or int(row["budget"]) != budget:
            continue
        name, place = work_of(row["document"])
        cover = made["control" if row["group"] == "control" else "corpus", name]
        start = place + int(row["item"].rsplit(":", 1)[1])
        start += len(row["prompt"]) if generator == "prefix" else 0
        inside = slice(start, start + len(row["target"]))
        p = window_p(row) if generator == "prefix" else None
        if p is not None:
            cover.p[inside] = np.fmax(cover.p[inside], p)
        cover.out[inside] |= bool(comes_out(row))
        cover.asked[inside] = True
    return [cover for cover in made.values() if cover.asked.any()]


def longest_run(inside: NDArray[np.bool_]) -> tuple[int | None, int]:
    """Start and length of the longest run of True; no start where there is none.

    >>> longest_run(np.array([False, True, True, False, True]))
    (1, 2)
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    if not len(starts):
        return None, 0
    k = int(np.argmax(lengths))
    return int(starts[k]), int(lengths[k])


def sample_ordinarily(case: AuditCase, target: Any, folder: Path) -> None:
    """What M writes by prompts that anyone might use, searched for runs of each work.

    Nothing, the title, "Continue the text." and the opening words, `SAMPLES` times each, as many
    tokens as a passage has. A prompt that M's alphabet cannot write is left out.
    """
    if not isinstance(target, Target):
        return
    entries = []
    samples = SAMPLES if case.config.ordinary is None else case.config.ordinary
    length = len(target.alphabet.encode(max((i.text for i in case.split.items), key=len)))
    for (side, name), text in join_works(case).items():
        index = Index([text])
        opening = " ".join(text[:LONGEST].split(" ")[:OPENING])
        prompts = {"nothing": "", "title": name, "continue": "Continue the text. "}
        for kind, prompt in (prompts | {"opening words": opening}).items():
            for output in _sampled(target, prompt, length, samples, case.config.seed):
                runs = [[at, n] for _, at, n in index.matches(output, RUN)]
                entry = {"work": name, "set": SIDES[side], "prompt": kind, "runs": runs}
                entries.append(entry | {"output": output})
    write_whole(folder / ORDINARY, json.dumps(entries, indent=1, ensure_ascii=False).encode())


def _sampled(target: Target, prompt: str, length: int, samples: int, seed: int) -> list[str]:
    try:
        ids = target.alphabet.round_trip(prompt)
    except ValueError:
        return []
    limit = getattr(target.model, "places", None) or math.inf
    length = int(min(length, limit - len(ids) - 1))
    if samples < 1 or length < 1:
        return []
    vectors = target.ahead([prompt] * samples)
    written = target.model.generate(vectors, length, Sample(seed=seed))
    return [target.alphabet.decode(row) for row in written.tolist()]


def read_covers(folder: Path, rows: Sequence[Row], facts: Mapping[str, Any]) -> list[Cover]:
    """Works under the prompt that carries "reproduces", or else under the first."""
    prompts = [row for row in rows if row["generator"] != "likelihood"]
    if not prompts:
        return []
    first = f"{prompts[0]['generator']} {prompts[0]['budget']}"
    generator, budget = (facts["reproduces"]["decided_by"] or first).rsplit(" ", 1)
    lengths = json.loads((folder / "sets.json").read_text("utf-8"))["works"]
    return cover_works(rows, generator, int(budget), lengths)


def describe_works(folder: Path, rows: Sequence[Row], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the works, from the stored rows: what comes out of each, searched and ordinarily."""
    covers = [cover.to_dict() for cover in read_covers(folder, rows, facts)]
    file = folder / ORDINARY
    entries = json.loads(file.read_text("utf-8")) if file.is_file() else []
    for work in covers:
        own = [e for e in entries if (e["work"], e["set"]) == (work["work"], work["set"])]
        work["ordinary"] = describe_ordinary(own, work["characters"]) if own else None
    return {"thresholds": list(THRESHOLDS), "works": covers}


def describe_ordinary(entries: Sequence[Mapping[str, Any]], characters: int) -> dict[str, Any]:
    """Share of a work that its samples hold, the longest run, and samples with one by prompt."""
    inside = np.zeros(characters, bool)
    hits: dict[str, int] = {}
    for entry in entries:
        hits[entry["prompt"]] = hits.get(entry["prompt"], 0) + bool(entry["runs"])
        for at, length in entry["runs"]:
            inside[at : at + length] = True
    longest = max((n for entry in entries for _, n in entry["runs"]), default=0)
    share = float(inside.mean())
    return {"samples": len(entries), "hits": hits, "share": share, "longest_run": longest}
