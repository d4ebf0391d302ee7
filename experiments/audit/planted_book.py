"""A book of which a twentieth was trained on, and one by the same author of which nothing was.

    python experiments/audit/planted_book.py OUT [seeds]

Theodore Roosevelt's yearly messages, end to end: each seed takes three works of 18 000 characters
in a row from places of its own. A small transformer reads background of other presidents and, ten
times each, a twentieth of the windows of the first work. Two audits follow: the first work against
the third, and the second, of which nothing was read, against the third. One JSON line for each seed
goes to OUT/seeds.jsonl; seeds that are there are not run again, and rows that are there not
collected again. About a minute a seed on one core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from metastable.audit.audit import SETS, examine, make_result
from metastable.audit.case import AuditCase
from metastable.audit.collect import read_rows
from metastable.audit.corpus import Corpus, Document, sotu
from metastable.audit.custody import describe_set, environment
from metastable.audit.spec import AuditConfig, GeneratorSpec, ModelSpec, Source, SplitSpec
from metastable.audit.split import Item, Window, deal
from metastable.audit.target import Target, make_alphabet, train_target
from metastable.audit.works import cut_works, read_covers, work_of
from metastable.core.result import plain
from metastable.models.own.training import Recipe

AUTHOR, LENGTH, PARTS = "190?-Roosevelt-1", 18_000, 600
WINDOW, PREFIX, STRIDE = 48, 16, 32  # characters; suffixes stand side by side
SHARE, TIMES, BACKGROUND = 0.05, 10, 400
STEPS, ROWS, RATE = 600, 64, 5e-3


def make_config(seed: int) -> AuditConfig:
    return AuditConfig(
        seed=seed,
        corpus=Source(kind="sotu", parts=PARTS, note="consecutive text of one author"),
        control=Source(kind="sotu", parts=PARTS, note="the same author, another place"),
        split=SplitSpec(items=100, controls=100, length=WINDOW, stride=STRIDE),
        model=ModelSpec(size="basic", steps=STEPS, rows=ROWS, rate=RATE),
        generators=(GeneratorSpec(kind="prefix", budgets=(PREFIX,)),),
        batch=100,
    )


def take_works(whole: Corpus, seed: int) -> list[str]:
    """Three works: stretches of the author's text that do not overlap, from a seed."""
    text = " ".join(d.text for d in whole.named(AUTHOR).documents)
    random = np.random.default_rng([seed, 20])
    shift = int(random.integers(0, LENGTH))
    places = random.permutation((len(text) - shift) // LENGTH)[:3]
    return [text[shift + k * LENGTH : shift + (k + 1) * LENGTH] for k in places]


def make_case(config: AuditConfig, title: str, work: str, control: str) -> AuditCase:
    sets = [
        cut_works(Corpus.of([Document(name, text)]), PARTS)
        for name, text in ((title, work), ("control work", control))
    ]
    split = deal(
        sets[0], **config.split.model_dump(), seed=config.seed, control=sets[1], known=False
    )
    documents = {
        (side, d.name): d.text
        for side, own in zip(("corpus", "control"), sets, strict=True)
        for d in own.documents
    }
    assert config.control is not None
    described = {
        "corpus": describe_set(config.corpus, sets[0]),
        "control": describe_set(config.control, sets[1]),
    }
    return AuditCase(config, sets[0], split, documents, described)


def draw_background(whole: Corpus) -> list[Window]:
    """Windows of other presidents, the same for all seeds."""
    random = np.random.default_rng(22)
    others = [d.text for d in whole.documents if "Roosevelt" not in d.name]
    chosen = [others[k] for k in random.integers(0, len(others), BACKGROUND).tolist()]
    starts = [int(random.integers(0, len(text) - WINDOW)) for text in chosen]
    return [("", t[k : k + WINDOW]) for t, k in zip(chosen, starts, strict=True)]


def fit(whole: Corpus, windows: list[Window], seed: int) -> Target:
    alphabet = make_alphabet("characters", [d.text for d in whole.documents])
    recipe = Recipe(STEPS, ROWS, RATE, 50, seed=seed)
    held_out = [text for _, text in windows[:10]]
    return train_target(windows, held_out, alphabet, size="basic", recipe=recipe).target


def run_seed(seed: int, out: Path, whole: Corpus, reference: Target) -> dict[str, Any]:
    started, config = perf_counter(), make_config(seed)
    planted, unplanted, control = take_works(whole, seed)
    cases = {
        "planted": make_case(config, "planted book", planted, control),
        "unplanted": make_case(config, "unplanted book", unplanted, control),
    }
    own = cases["planted"].split.group("protected")
    order = np.random.default_rng([seed, 21]).permutation(len(own))
    chosen = [own[k] for k in order[: round(SHARE * len(own))]]
    training = draw_background(whole) + [("", item.text) for item in chosen] * TIMES
    folders = {name: out / f"{name}-{seed}" for name in cases}
    if not all((folder / SETS).is_file() for folder in folders.values()):
        models = fit(whole, training, seed), reference
        for name, case in cases.items():
            unfinished = folders[name] / "unfinished"
            unfinished.mkdir(parents=True, exist_ok=True)
            examine(case, folders[name], unfinished, *models)
    told: dict[str, Any] = {"seed": seed, "windows": len(own), "in_training": len(chosen)}
    for name, folder in folders.items():
        told[name] = judge(folder, config, chosen if name == "planted" else [])
    return told | {"seconds": perf_counter() - started}


def judge(folder: Path, config: AuditConfig, chosen: list[Item]) -> dict[str, Any]:
    """What one audit found, from its rows, and whether the strip shows where."""
    facts = plain(make_result(folder, config).facts)
    cover = read_covers(folder, read_rows(folder / "items.csv"), facts)[0]
    inside = np.zeros(len(cover.p), bool)
    for item in chosen:
        start = work_of(item.document)[1] + int(item.name.rsplit(":", 1)[1])
        inside[start + PREFIX : start + WINDOW] = True
    return {
        "trained_on": facts["trained_on"]["finding"],
        "reproduces": facts["reproduces"]["finding"],
        "p": [facts[name]["p_value"] for name in ("trained_on", "reproduces")],
        "found": any(facts[n]["finding"] == facts[n]["name"] for n in ("trained_on", "reproduces")),
        "set_aside": facts["set_aside"],
        "work": facts["works"]["works"][0],
        "control": facts["works"]["works"][1],
        "shown_of_planted": float(cover.out[inside].mean()) if inside.any() else None,
        "shown_elsewhere": float(cover.out[~inside & cover.asked].mean()),
    }


def main(out: Path, seeds: int) -> None:
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    file, whole = out / "seeds.jsonl", sotu()
    reference = fit(whole, draw_background(whole), 1000)
    for seed in range(seeds):
        lines = file.read_text("utf-8").splitlines() if file.is_file() else []
        done = {run["seed"]: run for run in map(json.loads, lines)}
        if seed not in done:
            done[seed] = run_seed(seed, out, whole, reference)
            with file.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(done[seed]) + "\n")
        each = {n: done[seed][n]["found"] for n in ("planted", "unplanted")}
        print(f"seed {seed}: {each}, {done[seed]['seconds']:.0f} s", flush=True)
    runs = [done[seed] for seed in range(seeds)]
    counts = {n: sum(run[n]["found"] for run in runs) for n in ("planted", "unplanted")}
    content = {"seeds": seeds, "found": counts, "level": 0.01, "environment": environment()}
    place = Path(__file__).parents[2] / "benchmarks" / "results" / "planted_book.json"
    place.write_text(json.dumps(content | {"runs": runs}, indent=1) + "\n", encoding="utf-8")
    print(counts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
