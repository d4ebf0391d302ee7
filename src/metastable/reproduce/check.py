"""Check entries: complete, as known, noticing a planted error; what is done is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from metastable import __version__
from metastable.core.progress import Bar
from metastable.core.spec import fingerprint
from metastable.core.verdict import NOT_APPLICABLE
from metastable.reproduce.contributed import Contributed, find_contributed
from metastable.reproduce.examine import Record, examine, missing

CHECKS = "checks"  # in the folder of a report: one record an entry

Say = Callable[[str], None]


def check(asked: Sequence[str], out: Path, say: Say = lambda line: None) -> Record:
    """Check files, entries by name, sources or "all"; what has not changed is not done again."""
    if not asked:
        raise ValueError("NAME must be an entry, its file, a source or all; got none: name one.")
    found = [each for one in asked for each in find_contributed(one)]
    records: list[Record] = []
    interrupted = False
    with Bar("checking") as bar:
        try:
            for contributed in found:
                records.append(_kept_or_checked(contributed, out / CHECKS))
                bar.update(len(records) / len(found))
                say(line_of(records[-1]))
        except KeyboardInterrupt:
            interrupted = True
    failed = [record["name"] for record in records if not record["ok"]]
    left = len(found) - len(records)
    return {"entries": records, "failed": failed, "left": left, "interrupted": interrupted}


def line_of(record: Record) -> str:
    """One line about an entry.

    >>> line_of({"ok": True, "name": "wendel", "seconds": 0.5, "problems": [], "warnings": [],
    ...          "planted": "share * 1.3", "flipped": ["the share"], "proposed": False})
    'ok      wendel (0.5 s): share * 1.3 flips: the share'
    """
    told = [*record["problems"], *record["warnings"]]
    if record["flipped"]:
        proposed = "write in planted: " * record["proposed"]
        told.insert(0, f"{proposed}{record['planted']} flips: {'; '.join(record['flipped'])}")
    mark = "ok" if record["ok"] else "not ok"
    return f"{mark:6}  {record['name']} ({record['seconds']:.1f} s): {'. '.join(told)}"


def _kept_or_checked(contributed: Contributed, folder: Path) -> Record:
    """The record of the same file checked before by the same version, or a new one."""
    place = folder / f"{contributed.source}-{contributed.name}.json"
    work = {"file": contributed.text(), "version": __version__, "inside": contributed.inside}
    digest, record = fingerprint(work), None
    with suppress(OSError, ValueError):
        kept = json.loads(place.read_text(encoding="utf-8"))
        told = kept["digest"] == digest and kept["record"]["verdict"] != NOT_APPLICABLE
        record = kept["record"] if told else None
    if record is None:
        record = examine(contributed)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"digest": digest, "record": record}, ensure_ascii=False, indent=1)
        place.write_text(text + "\n", encoding="utf-8")
    problems = [*missing(contributed), *record["problems"]]  # others may have come since
    return record | {"problems": problems, "ok": not problems}
