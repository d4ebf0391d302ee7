"""The whole audit: a config in, a folder out, with the evidence and both findings.

Beside what every result has, its folder holds the evidence as others can read it: documents.json
and split.json (which text was where, by digest), sets.json (what the sets show without asking M),
model/ and model.json, items.csv, a row for each item and question, and nulls/, the same of models
and items on which nothing must show. Findings follow from these alone; see `audit.verify`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from metastable.audit.blind import Blind
from metastable.audit.canaries import CLAIM, PUBLIC, SECRET, reveal
from metastable.audit.case import (
    AuditCase,
    M,
    cheapest,
    fit,
    null_cases,
    prepare,
    refuse_unfit,
)
from metastable.audit.collect import counted, read_rows, write_rows
from metastable.audit.completions import Talk
from metastable.audit.custody import describe_models, environment
from metastable.audit.duplicates import check_duplicates
from metastable.audit.novelty import describe_known, mark_known
from metastable.audit.plan import PLAN, find_plan, read_plan, refuse_changes
from metastable.audit.spec import AuditConfig
from metastable.audit.talk import TRANSCRIPT, Conversation, open_talk, refuse_short_items
from metastable.audit.target import (
    Fitted,
    Target,
    file_digests,
    open_model_folder,
    weights_digest,
)
from metastable.audit.validity import in_words
from metastable.audit.verdict import Findings, make_findings
from metastable.audit.wording import quote
from metastable.audit.works import (
    describe_works,
    sample_ordinarily,
)
from metastable.core.folder import MANIFEST, SPEC, claimed, write_whole
from metastable.core.folder import open_folder as open_result_folder
from metastable.core.outcome import Outcome
from metastable.core.result import Result, write_result

ITEMS, NULLS, SETS, DOCUMENTS = "items.csv", "nulls", "sets.json", "documents.json"


def run_audit(
    config: AuditConfig, folder: Path, plan: Path | None = None, talk: Talk | None = None
) -> Result:
    """Carry out an audit in a new folder, or go on with one that was cut short there.

    `plan`, or a plan that lies in the folder, must fit. `talk` answers for a model of family
    "text" in the place of a server. Facts of the result: see `audit.verdict.Findings`, `planned`.
    """
    started = datetime.now(UTC)
    case = prepare(config)
    place = find_plan(folder, plan)
    planned = None if place is None else read_plan(place)
    if planned is not None:
        refuse_changes(planned, case)
    elif case.caution:
        print(f"metastable: {case.caution}", file=sys.stderr)
    target, reference = None, None
    if config.model.family == "folder":
        target = open_model_folder(str(config.model.path), config.model.device)
        if config.model.references:
            reference = open_model_folder(config.model.references[0], config.model.device)
    if config.model.family == "text":
        refuse_short_items(case.split.items, [g.budget for g in case.generators])
    else:
        alphabet = case.alphabet() if target is None else target.alphabet
        limit = getattr(target and target.model, "places", None)
        refuse_unfit(config, case.split.items, alphabet, limit, case.generators)
    with claimed(folder, config, "audit") as unfinished:
        if place is not None and place != folder / PLAN:
            write_whole(folder / PLAN, place.read_bytes())
        for name in (SECRET, PUBLIC) if config.corpus.kind == "canaries" else ():
            write_whole(folder / name, (Path(str(config.corpus.path)) / name).read_bytes())
        if config.model.family == "text":
            target = open_talk(config.model, talk, folder / TRANSCRIPT, config.seed)
            first = case.generators[0].budget if case.generators else None
            target.make_rows(first, case.split.items[:1])  # a wrong address shows before all else
        digests = examine(case, folder, unfinished, target, reference)
        with counted((ITEMS, SETS), 2, "tables", "judging: "):
            result = make_result(folder, config)
        about = {"environment": environment(), "seeds": {"seed": config.seed}} | digests
        return write_result(result, folder, started, ["ranked_*.csv", "page.json"], **about)


def prepare_audit(config: AuditConfig) -> Callable[[Path, bool | None], Result]:
    """The function that carries out an audit in a folder, which it claims."""
    return lambda folder, progress: run_audit(config, folder)


def examine(
    case: AuditCase, folder: Path, unfinished: Path, target: M | None, reference: Target | None
) -> dict[str, Any]:
    """Train where no model is given, and collect: leaves evidence; returns digests of models."""
    config, generators = case.config, case.generators
    what = "corpus and control"
    _keep_same(folder / DOCUMENTS, case.sets, what)
    _keep_same(
        folder / "split.json", case.split.to_dict() | {"corpus_sha256": case.corpus.digest}, what
    )
    if target is None:
        fitted = fit(case, case.split.training, config.seed, unfinished / "training.npz")
        other = fit(case, case.split.background, config.seed + 1, unfinished / "reference.npz")
        target, reference = fitted.target, other.target
        write_json(folder / "model.json", {"model": fitted.to_dict(), "reference": other.to_dict()})
        _keep_model(fitted, folder / "model")
        digests = {
            "model_sha256": file_digests(folder / "model"),
            "reference_sha256": {"weights": weights_digest(reference.model)},
        }
    else:
        paths = {"model": config.model.path, "reference": config.model.reference}
        if isinstance(target, Conversation):
            paths = target.describe()
        digests = {f"{name}_sha256": own for name, own in describe_models(config).items()}
        _keep_same(folder / "model.json", paths | digests, "the model's files")

    parts = unfinished / "parts"
    rows = case.ask(target, case.split.items, generators, reference=reference, folder=parts)
    cases = null_cases(case, target, reference)
    models = [(name, own) for name, own, _ in cases if isinstance(own, Target)]
    others = {f"a {in_words(name)}": own for name, own in models if own is not target}
    alphabet = getattr(target, "alphabet", None)
    write_rows(mark_known(rows, case, alphabet, others), folder / ITEMS)
    if config.corpus.parts:
        sample_ordinarily(case, target, folder)
    (folder / NULLS).mkdir(exist_ok=True)
    for name, null, items in cases:
        title, parts = f"nothing to find, {in_words(name)}", unfinished / f"parts-{name}"
        rows = case.ask(null, items, cheapest(generators), folder=parts, title=title)
        write_rows(rows, folder / NULLS / f"{name}.csv")
    with counted(rows, len(rows), "rows", "comparing the sets: "):
        write_json(folder / SETS, case.compare_sets())
    return digests


def judge(folder: Path, config: AuditConfig) -> Findings:
    """Both findings, from the evidence in a folder alone: no model and no document is read."""
    sets = json.loads((folder / SETS).read_text("utf-8"))
    nulls = {file.stem: read_rows(file) for file in sorted((folder / NULLS).glob("*.csv"))}
    areas, pairs = sets["blind_areas"], sets["near_duplicates"]
    return make_findings(
        read_rows(folder / ITEMS),
        level=config.level,
        blind=None if areas is None else Blind.of(areas),
        nulls=nulls,
        more=[] if pairs is None else [check_duplicates([tuple(pair) for pair in pairs])],
        works=config.corpus.parts is not None,
        seed=config.seed,
        combined=bool(config.dataset_inference),
    )


def make_result(folder: Path, config: AuditConfig) -> Result:
    """The result that follows from the evidence in a folder."""
    found = judge(folder, config)
    plan = read_plan(folder / PLAN) if (folder / PLAN).is_file() else None
    planned = plan and {name: plan[name] for name in ("commitment", "written")}
    facts, verdicts = found.to_dict() | {"planned": planned}, found.comparison()
    if config.corpus.kind == "canaries":
        facts |= reveal(folder, read_rows(folder / ITEMS))
        first = replace(verdicts.rows[0], **CLAIM)
        verdicts = replace(verdicts, rows=(first, *verdicts.rows[1:]))
    both = (found.trained_on, found.reproduces)
    words = "; ".join(f"{one.name}: {_answer(one.word, one.name)}" for one in both)
    if config.model.family == "text":
        facts["unit"] = "characters"
    facts |= describe_known(read_rows(folder / ITEMS))
    if config.corpus.parts:
        facts["works"] = describe_works(folder, read_rows(folder / ITEMS), facts)
    facts["quote"] = quote(facts)
    return Result(
        spec=config,
        outcome=Outcome("done", words),
        facts=facts,
        verdicts=verdicts,
        sentence=facts["quote"],
    )


def _answer(word: str, name: str) -> str:
    return "found" if word == name else word


def read_unreported(folder: Path, config: AuditConfig) -> dict[str, Any] | None:
    """The facts of this audit where it is finished but for its page; else None."""
    if not (folder / MANIFEST).is_file() or (folder / "report.html").exists():
        return None
    same = AuditConfig.load(folder / SPEC).digest == config.digest
    return read_facts(folder) if same else None


def read_facts(folder: Path) -> dict[str, Any]:
    """The facts of a finished audit, after every file was compared with its checksum."""
    missing = f"DIR must hold a finished audit; got {folder}: run `metastable audit run` first."
    manifest = open_result_folder(folder, missing)
    if manifest.get("kind") != "audit":
        raise ValueError(missing)
    return manifest["result"] | {"out": str(folder)}


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, at once: it is there whole or not at all."""
    write_whole(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def _keep_same(path: Path, content: Any, what: str) -> None:
    """Write a JSON file, or refuse where an audit that was cut short has another there."""
    try:
        kept = json.loads(path.read_text("utf-8")) if path.is_file() else None
    except ValueError:
        kept = "damaged"
    if kept is not None and kept != json.loads(json.dumps(content)):
        raise ValueError(
            f"{what} must be as they were when this audit began; {path} says otherwise: bring "
            "them back, or choose another --out."
        )
    write_json(path, content)


def _keep_model(fitted: Fitted, folder: Path) -> None:
    from metastable.models.own.saving import save_model

    if folder.exists():
        return
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    save_model(fitted.target.model, part)  # pyright: ignore[reportArgumentType]
    part.rename(folder)
