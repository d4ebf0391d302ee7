"""The papers behind the rows of a page, and the entries of `reproductions/` that test each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from metastable.comparison.literature import Paper, cited_keys, papers
from metastable.core.verdict import Verdict

__all__ = ["Papers", "address_of", "cited_papers"]


@dataclass(frozen=True)
class Papers:
    """Cited papers with their addresses and entries; rows of a table lead to them."""

    kind: ClassVar[str] = "papers"
    papers: Sequence[Paper]


def cited_papers(rows: Iterable[Verdict | Mapping[str, Any]]) -> list[Papers]:
    """One block about all papers that the sources of verdict rows name; none where none is."""
    found = papers(
        (row.source if isinstance(row, Verdict) else row.get("source") or "") for row in rows
    )
    return [Papers(found)] if found else []


def address_of(source: str) -> str:
    """Where on the page the first paper of a source is described; empty where none is named."""
    keys = cited_keys([source])
    return f"#source-{keys[0]}" if keys else ""
