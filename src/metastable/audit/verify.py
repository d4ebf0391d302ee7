"""Whether a kept audit is what it was: every byte, and every number from the stored rows.

Digests show a changed file. A digest can be put right after a change; so findings, verdict rows and
paragraph are computed again from the stored rows, and must be those of the summary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import escape

from metastable import __version__
from metastable.audit import audit
from metastable.audit.collect import read_rows
from metastable.audit.custody import changed_entries, digest_file
from metastable.audit.evidence import number
from metastable.audit.plan import PLAN, read_plan, refuse_changes
from metastable.audit.spec import AuditConfig
from metastable.audit.talk import SAMPLES, TRANSCRIPT, replay
from metastable.audit.target import Target, open_model_folder, refuse_folder, torch_device
from metastable.core.folder import DERIVED, MANIFEST, SPEC, open_folder, write_whole
from metastable.core.result import VERDICTS, plain

PAGE = "page.json"  # digests of what is made from the rest: page, figures, ranked tables
CLOSE = 1e-9  # relative: sums of other machines and versions may differ in their last digits
TOLERANCE = 1e-3  # of scores in nats a token: single precision, on another device
SCORES = ("nll", "min_k")
MADE = ("report.html", "report.pdf", "figures/*", "ranked_*.csv")


@dataclass(frozen=True)
class Check:
    """`passed`: True, False, or None where it could not be examined here."""

    name: str
    passed: bool | None
    told: str


def verify_audit(
    folder: Path, *, scores: bool = False, commitment: str | None = None
) -> list[Check]:
    """Check a finished audit: bytes, findings, plan, documents, models; with `scores` M again.

    `commitment` is that of the plan as it was deposited.
    """
    if not (folder / MANIFEST).is_file():
        raise ValueError(
            f"DIR must hold a finished audit; {folder} has no {MANIFEST}: run `metastable audit "
            "run` first."
        )
    checks = list(_check_files(folder))
    if commitment is not None:
        checks.append(_check_commitment(folder, commitment))
    if any(check.name == MANIFEST for check in checks if check.passed is False):
        try:  # a manifest whose digest is wrong may still be read, and say more
            json.loads((folder / MANIFEST).read_text("utf-8"))["result"]
        except (ValueError, KeyError, TypeError):
            return checks
    try:
        config = AuditConfig.load(folder / SPEC)
        checks += _check_numbers(folder, config)
        if config.model.family == "text":
            checks.append(_check_transcript(folder, config))
        checks += _check_sources(folder, config, scores)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split())[:200]
        checks.append(Check("findings follow from the rows", False, f"cannot be read: {reason}"))
    return checks


def _check_commitment(folder: Path, deposited: str) -> Check:
    """Whether the plan that was deposited is the one in the folder."""
    name, deposited = "deposited commitment", deposited.strip().lower()
    if not (folder / PLAN).is_file():
        return Check(name, False, "this audit had no plan")
    own = read_plan(folder / PLAN)["commitment"]
    told = f"the plan here has {own}" if own != deposited else "is that of the plan here"
    return Check(name, own == deposited, told)


def seal_page(folder: Path) -> Path:
    """Write the digests of the page, the figures and the ranked tables."""
    files = sorted(path for pattern in MADE for path in folder.glob(pattern))
    digests = {path.relative_to(folder).as_posix(): digest_file(path) for path in files}
    content = {"files": digests, "manifest": digest_file(folder / MANIFEST)}
    path = folder / PAGE
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())
    return path


def _check_files(folder: Path) -> Iterator[Check]:
    """Every file of the folder against its digest; each that differs is named."""
    try:
        open_folder(folder, "")
        sealed = True
    except ValueError as error:
        sealed = MANIFEST not in str(error).split(" is ")[0]
        if not sealed:
            yield Check(MANIFEST, False, "changed: its own checksum does not follow from it")
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        expected = dict(_flat(manifest["files_sha256"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    page = folder / PAGE
    try:
        made = json.loads(page.read_text("utf-8")) if page.is_file() else None
        expected |= {} if made is None else dict(made["files"])
        if made is not None and sealed and made["manifest"] != digest_file(folder / MANIFEST):
            yield Check(PAGE, False, f"changed, or made from another {MANIFEST}")
    except (ValueError, KeyError, TypeError):
        yield Check(PAGE, False, "changed: not the digests of a page")
        made = None
    wrong = 0
    for name, digest in expected.items():
        path = folder / name
        if not path.is_file() or digest_file(path) != digest:
            wrong += 1
            told = "changed: its checksum differs" if path.is_file() else "missing"
            yield Check(name, False, told)
    known = {*expected, MANIFEST, PAGE}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        free = made is None and (name.parts[0] in DERIVED or path.match("ranked_*.csv"))
        if path.is_file() and not hidden and not free and name.as_posix() not in known:
            yield Check(name.as_posix(), False, "does not belong to this audit")
    if not wrong:
        yield Check("files", True, f"{len(expected)} files are as they were sealed")


def _flat(files: dict[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    for name, digest in files.items():
        if isinstance(digest, dict):
            yield from _flat(digest, f"{place}{name}/")
        else:
            yield f"{place}{name}", digest


def _check_numbers(folder: Path, config: AuditConfig) -> Iterator[Check]:
    """The summary, the verdict rows and the paragraph, computed again from the stored rows."""
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    again = audit.make_result(folder, config)
    pairs = {
        MANIFEST: (manifest["result"], again.facts),
        f"{MANIFEST}: sentence": (manifest["sentence"], again.sentence),
        VERDICTS: (
            json.loads((folder / VERDICTS).read_text("utf-8")),
            again.verdicts.to_dict(),
        ),
        f"{MANIFEST}: spec": (manifest["spec"], config.model_dump(mode="json", exclude_none=True)),
    }
    wrong = False
    for file, (kept, computed) in pairs.items():
        for name, told, follows in changed_entries(kept, plain(computed), close=CLOSE):
            wrong = True
            where = f"{file}: {name}" if name else file
            said, gives = str(told)[:60], str(follows)[:60]
            yield Check(where, False, f"says {said}, and the stored rows give {gives}")
    page = folder / "report.html"
    if page.is_file() and str(escape(again.sentence)) not in page.read_text("utf-8"):
        wrong = True
        yield Check(page.name, False, "does not hold the paragraph that the stored rows give")
    made = manifest.get("versions", {}).get("metastable")
    if made != __version__:
        told = f"made by {made}, checked by {__version__}: words may differ without a fault"
        yield Check("version", None, told)
    if not wrong:
        told = f"both findings, all numbers and the paragraph, to a relative {CLOSE:g}"
        yield Check("findings follow from the rows", True, told)


def _check_transcript(folder: Path, config: AuditConfig) -> Check:
    """Every row of every table, made again from what was asked and answered."""
    nulls = sorted((folder / audit.NULLS).glob("*.csv"))
    files = [folder / audit.ITEMS, *nulls]
    tables = {file.relative_to(folder).as_posix(): read_rows(file) for file in files}
    try:
        settings = (config.seed, config.model.samples or SAMPLES)
        return Check(TRANSCRIPT, True, replay(folder / TRANSCRIPT, tables, *settings))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Check(TRANSCRIPT, False, f"rows do not follow from it: {str(error)[:200]}")


def _check_sources(folder: Path, config: AuditConfig, scores: bool) -> Iterator[Check]:
    """Documents and models, where they are on this machine; the plan; M's own scores."""
    plan = read_plan(folder / PLAN) if (folder / PLAN).is_file() else None
    told = "not planned beforehand" if plan is None else f"commitment {plan['commitment']}"
    yield Check("plan", None if plan is None else True, told)
    try:
        case = audit.prepare(config)
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        yield Check("documents", None, f"not compared: {reason}")
        return
    kept = json.loads((folder / audit.DOCUMENTS).read_text("utf-8"))
    changes = list(changed_entries(kept, plain(case.sets)))
    for name, *_ in changes:
        yield Check(f"documents: {name}", False, "is not the text that was audited")
    if not changes:
        yield Check("documents", True, "those that were audited")
    if plan is not None:
        try:
            refuse_changes(plan, case)
        except ValueError as error:
            yield Check(PLAN, False, str(error))
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    for name, digests in audit.describe_models(config).items():
        changed = list(changed_entries(manifest[f"{name}_sha256"], digests))
        for file, *_ in changed:
            yield Check(f"{name}: {file}", False, "is not the file that was audited")
        if not changed:
            yield Check(name, True, f"{len(digests)} files, those that were audited")
    if scores and not changes:
        yield _check_scores(folder, case)


def _check_scores(folder: Path, case: audit.AuditCase) -> Check:
    """Likelihoods of all items, asked of M again."""
    if case.config.model.family == "text":
        return Check("scores", None, f"not asked again: {TRANSCRIPT} holds what was answered")
    kept = {
        (row["item"], row["group"] == "control"): row
        for row in read_rows(folder / audit.ITEMS)
        if row["generator"] == "likelihood"
    }
    largest = 0.0
    for row in case.ask(_target(folder, case), case.split.items, []):
        before = kept[row["item"], row["group"] == "control"]
        for score in SCORES:
            values = number(before, score), number(row, score)
            if None in values:
                return Check("scores", False, f"{row['item']} has no finite {score}")
            largest = max(largest, abs((values[0] or 0) - (values[1] or 0)))
    told = f"{' and '.join(SCORES)} of {len(kept)} items differ by at most {largest:.2g}"
    return Check("scores", largest <= TOLERANCE, f"{told}; {TOLERANCE:g} is allowed")


def _target(folder: Path, case: audit.AuditCase) -> Target:
    """M once more: the audited folder, or the model that was trained and kept here."""
    model = case.config.model
    if model.path is not None:
        return open_model_folder(model.path, model.device)
    from metastable.models.own.saving import load_model

    loaded = load_model(folder / "model").to(torch_device(model.device))
    return Target(loaded, case.alphabet(), model.device).freeze()


def open_target(folder: Path) -> Target:
    """M of a bundle that keeps it, or of a Hugging Face folder."""
    if not (folder / MANIFEST).is_file():
        refuse_folder(folder)
        return open_model_folder(folder)
    config = AuditConfig.load(folder / SPEC)
    if config.model.family == "text":
        raise ValueError(f"DIR must hold a model; {folder} audited one by text alone: name another")
    return _target(folder, audit.prepare(config))


def to_dict(checks: list[Check]) -> dict[str, Any]:
    """One object: whether all is well, and each check."""
    return {
        "verified": all(check.passed is not False for check in checks),
        "checks": [asdict(check) for check in checks],
    }
