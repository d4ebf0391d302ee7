"""The map of claims: counts by subject, what decides between claims, what is open, all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metastable.report import page
from metastable.report.finder import Claims, Finder, Library

Claim = Mapping[str, Any]
NO_SUBJECT = "other"
BASES = {
    "text": "the text of the source",
    "code": "public code of the authors",
    "report": "another document that quotes it",
    "abstract": "the abstract alone",
    "derived": "a derivation of ours",
}


def write_atlas(
    path: Path,
    claims: Sequence[Claim],
    library: Sequence[Mapping[str, Any]],
    pairs: Sequence[tuple[Claim, Claim, str]],
    order: Sequence[str],
) -> Path:
    """Write the map.

    `library` are the sources, `pairs` contradict each other (with the command that decides), and
    `order` is that of the subjects.
    """
    subjects: dict[str, list[Claim]] = {name: [] for name in (*order, NO_SUBJECT)}
    for claim in claims:
        subjects[claim["subject"] or NO_SUBJECT].append(claim)
    subjects = {name: own for name, own in subjects.items() if own}
    titles = {claim["name"]: claim["title"] for claim in claims}
    first = [
        *([page.Section("Where claims contradict each other", [_decided(pairs)])] if pairs else []),
        *_opened([claim for claim in claims if claim["open"]]),
        *_implied(claims),
    ]
    start = len(first) + 1
    sections = [
        page.Section(f"{subject}: {len(own)}", [Claims([_shown(c, titles) for c in own])])
        for subject, own in subjects.items()
    ]
    overview = page.rows_table(
        [_counted(name, own, start + k) for k, (name, own) in enumerate(subjects.items())]
    )
    finder = Finder(len(claims), _choices(claims))
    shelf = page.Section("Sources", [Library([_volume(each, claims) for each in library])])
    lead: list[page.Block] = [_answer(claims, library, pairs), finder, overview, _origin(claims)]
    return page.write_page(path, "Map of the field", *first, *sections, shelf, lead=lead)


def _answer(claims: Sequence[Claim], library: Sequence[Any], pairs: Sequence[Any]) -> str:
    count = lambda verdict: sum(claim["verdict"] == verdict for claim in claims)
    run = any(claim["ran"] for claim in claims)  # else what is shown was found elsewhere
    told = f"Of {len(claims)} claims from {len(library)} sources {count('agree')} "
    told += "hold" if run else "are known to hold"
    if count("disagree"):
        told += f" and {count('disagree')} {'do not' if run else 'not to'} hold as stated"
    told += f"; {len(pairs)} pairs contradict each other, and a run decides each" if pairs else ""
    return told + "."


def _origin(claims: Sequence[Claim]) -> page.Facts:
    """Which verdicts are of runs beside this page."""
    ran = sum(claim["ran"] for claim in claims)
    known = {"verdicts as known": len(claims) - ran, "make them": "metastable reproduce all --fast"}
    return page.Facts(
        {"verdicts of runs in this folder": ran} | (known if ran < len(claims) else {})
    )


def _counted(subject: str, claims: Sequence[Claim], number: int) -> dict[str, Any]:
    count = lambda name, value: sum(claim[name] == value for claim in claims)
    return {
        "subject": page.Noted(subject, "", f"#section-{number}"),
        "claims": len(claims),
        "hold": count("verdict", "agree"),
        "do not": count("verdict", "disagree"),
    }


def _decided(pairs: Sequence[tuple[Claim, Claim, str]]) -> page.Table:
    side = lambda claim: page.Noted(
        f"{claim['title']} ({claim['source']}): {claim['verdict']}",
        claim["correction"],
        f"#claim-{claim['name']}",
    )
    rows = [
        {"one claim": side(one), "the other": side(other), "the run that decides": command}
        for one, other, command in pairs
    ]
    return page.rows_table(rows)


def _implied(claims: Sequence[Claim]) -> list[page.Section]:
    named = {claim["name"]: claim for claim in claims}
    linked = lambda claim: page.Noted(claim["title"], claim["verdict"], f"#claim-{claim['name']}")
    rows = [
        {"if this holds": linked(claim), "so does this": linked(named[name])}
        for claim in claims
        for name in claim["implies"]
        if name in named
    ]
    return [page.Section("What implies what", [page.rows_table(rows)])] if rows else []


def _opened(claims: Sequence[Claim]) -> list[page.Section]:
    rows = [
        {
            "question": page.Noted(c["title"], c["claim"], f"#claim-{c['name']}"),
            "verdict": c["verdict"],
            "not tested": c["limits"],
        }
        for c in claims
    ]
    return [page.Section("What is open", [page.rows_table(rows)])] if rows else []


def _choices(claims: Sequence[Claim]) -> dict[str, list[str]]:
    values = [_marks(claim) for claim in claims]
    return {name: sorted({one for each in values for one in each[name]}) for name in values[0]}


def _marks(claim: Claim) -> dict[str, list[str]]:
    return {
        "subject": [claim["subject"] or NO_SUBJECT],
        "verdict": [claim["verdict"]],
        "basis": [claim["basis"]],
        "field": list(claim["kinds"]),
        "source": [claim["source"]],
    }


def _shown(claim: Claim, titles: Mapping[str, str]) -> dict[str, Any]:
    told = {
        "Claim": claim["claim"],
        "Corrected": claim["correction"],
        "Done": claim["method"],
        "Not tested": claim["limits"],
        "Known from": BASES.get(claim["basis"], claim["basis"]),
        "Fields": ", ".join(claim["kinds"]),
        "Error it notices": claim["planted"],
        "Verdict": "of a run in this folder"
        if claim["ran"]
        else "as known; not run in this folder",
    }
    related = {
        "Implies": claim["implies"],
        "Follows from": claim["followed"],
        "Contradicts": claim["contradicts"],
        "Contradicted by": claim["refuted"],
    }
    linked = {
        word: [(titles[name], f"#claim-{name}") for name in names if name in titles]
        for word, names in related.items()
    }
    return {
        **claim,
        "places": ", ".join(claim["places"]),
        "document": "its source",
        "marks": _marks(claim),
        "paragraphs": [(name, text) for name, text in told.items() if text],
        "links": [(word, pairs) for word, pairs in linked.items() if pairs],
    }


def _volume(source: Mapping[str, Any], claims: Sequence[Claim]) -> dict[str, Any]:
    own = [claim for claim in claims if claim["source"] == source["name"]]
    return {
        **source,
        "text": [" ".join(part.split()) for part in source["text"].split("\n\n")],
        "claims": [(claim["title"], f"#claim-{claim['name']}") for claim in own],
    }
