"""Every paper cited in the theory has one complete entry in references.bib."""

from __future__ import annotations

import re
from pathlib import Path

import metastable.theory

FOLDER = Path(metastable.theory.__file__).parent
ENTRIES = (FOLDER / "references.bib").read_text(encoding="utf-8")
KEYS = re.findall(r"^@\w+\{(\w+),", ENTRIES, re.MULTILINE)


def test_cited_keys_exist():
    cited = set()
    for module in FOLDER.glob("*.py"):
        cited |= set(re.findall(r"\b([a-z]+(?:19|20)\d\d[a-z]\w*)", module.read_text("utf-8")))
    assert cited, "the pattern no longer finds any citation"
    assert cited <= set(KEYS), cited - set(KEYS)


def test_entries_are_complete_and_distinct():
    assert len(KEYS) == len(set(KEYS))
    for entry in re.split(r"\n(?=@)", ENTRIES.strip()):
        assert all(re.search(rf"^\s+{f}\s*=", entry, re.M) for f in ("author", "title", "year"))
    identifiers = re.findall(r"eprint\s*= \{(.+)\}", ENTRIES)
    assert len(identifiers) == len(set(identifiers))
