"""The papers behind a result."""

from __future__ import annotations

import re
from importlib.resources import files

from metastable.core.verdict import Comparison
from metastable.flows import Trajectory

MODEL = "geshkovski2023mathematical"


def cite(result: Trajectory | Comparison) -> str:
    """BibTeX of the model and of every paper behind the claims that speak of a run.

    >>> import metastable as ms
    >>> run = ms.flow(ms.orthogonal(tokens=2, dim=2), ms.SelfAttention(beta=1.0), horizon=1.0)
    >>> print(ms.cite(run).splitlines()[0])
    @article{geshkovski2023mathematical,
    """
    from metastable.comparison import compare

    comparison = compare(result) if isinstance(result, Trajectory) else result
    entries = bibliography()
    cited = " ".join(row.source for row in comparison.rows if row.verdict != "not applicable")
    keys = [MODEL, *(key for key in entries if key in cited and key != MODEL)]
    return "\n\n".join(entries[key] for key in keys)


def bibliography() -> dict[str, str]:
    """All entries of `theory/references.bib` by key."""
    text = files("metastable.theory").joinpath("references.bib").read_text(encoding="utf-8")
    entries = re.finditer(r"^@\w+\{([^,]+),.*?^\}", text, re.M | re.S)
    return {entry[1]: entry[0] for entry in entries}


def readable(source: str) -> str:
    """A source with its keys written out for people.

    >>> readable("geshkovski2024dynamic, Theorem 1; derived")
    'Geshkovski et al. 2024, arXiv:2410.06833, Theorem 1; derived'
    """
    for key, entry in bibliography().items():
        if key in source:
            source = source.replace(key, _short(entry))
    return source


def _short(entry: str) -> str:
    given = dict(re.findall(r"(\w+)\s*=\s*\{(.*)\}", entry))
    names = [author.split(",")[0] for author in given["author"].split(" and ")]
    who = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    arxiv = f", arXiv:{given['eprint']}" if "eprint" in given else ""
    return re.sub(r"[{}]", "", f"{who} {given['year']}{arxiv}")
