"""The map of the field: every claim with its verdict, on one page that can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from metastable.comparison.literature import papers
from metastable.reproduce.catalogue import key_of, page_of, sources
from metastable.reproduce.claims import contradictions, gather
from metastable.reproduce.entry import Subject

__all__ = ["write_map"]


def write_map(out: Path, pages: str = "") -> tuple[Path, dict[str, Any]]:
    """Write `out/map.html`; returns its path and how many claims have which verdict.

    `pages`: the address of a source's page with {source} in it, for claims that were not run in
    `out`; without it they have no page of their own.
    """
    from metastable.report.pages.atlas import write_atlas

    claims = gather(out)
    if pages:
        claims = [
            {**claim, "page": claim["page"] or pages.format(source=claim["source"])}
            for claim in claims
        ]
    titles = sources()
    library = []
    for source, title in titles.items():
        key = key_of(source)
        found = papers([key]) if key else []
        address = found[0].address if found else ""
        library.append(
            {"name": source, "title": title, "text": page_of(source), "address": address}
        )
    order = get_args(Subject)
    place = write_atlas(out / "map.html", claims, library, contradictions(claims), order)
    verdicts = [claim["verdict"] for claim in claims]
    counts = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    return place, {"claims": len(claims), "sources": len(titles), "verdicts": counts}
