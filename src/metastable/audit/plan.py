"""The plan: question, sets, splits, scores and level, frozen before the model is asked anything.

`plan.json` holds them with a time and a SHA-256 over all of it, to be deposited with others. An
audit that has a plan is refused where anything differs from it.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metastable.audit import novelty, verdict
from metastable.audit.case import AuditCase, refuse_unfit_for_folder
from metastable.audit.custody import changed_entries, describe_models, environment
from metastable.audit.evidence import BY_TEXT, COMMON, LIKELIHOOD, NEAR
from metastable.audit.power import Power
from metastable.audit.spec import AuditConfig
from metastable.audit.talk import SAMPLES
from metastable.core.folder import SPEC, write_whole
from metastable.core.result import plain

if TYPE_CHECKING:
    from metastable.audit.generators.generator import Generator

PLAN, FORMAT = "plan.json", "metastable audit plan 1"
PARAMETERS = {"basic": 65e3, "complex": 350e3, "large": 1.2e6}
USED = 0.25  # of the speed of a matrix product that a small model reaches


def freeze(case: AuditCase) -> dict[str, Any]:
    """All that must be as planned, as plain values; paths are left out, contents are digested."""
    config = case.config
    tree = config.model_dump(mode="json", exclude_none=True)
    for key in AuditConfig.PATHS:
        section, name = key.split(".")
        tree.get(section, {}).pop(name, None)
    tree.pop("name", None)
    question = {
        "claims": verdict.CLAIMS,
        "test": "one-sided permutation of means over documents",
        "draws": verdict.DRAWS,
        "adjustment": "Holm within each finding, then over the two",
        "likelihood": [
            *LIKELIHOOD,
            *(BY_TEXT if config.model.family == "text" else ()),
            *config.more_scores,
        ],
        "prompts": [f"{spec.kind} {k}" for spec in config.generators for k in spec.budgets],
        "near_verbatim": NEAR,
        "least_documents": verdict.FLOOR,
        "set_aside": {"share": COMMON, "run": novelty.RUN, "order": novelty.ORDER},
        "level": config.level,
    }
    frozen = {
        "question": question,
        "config": tree,
        "sets": case.sets,
        "split": case.split.to_dict(),
        "models": describe_models(config),
    }
    return json.loads(json.dumps(plain(frozen)))


def write_plan(case: AuditCase, folder: Path) -> dict[str, Any]:
    """Write plan.json and spec.toml into a new or empty folder; returns the plan."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"--out must be a new or empty folder; got {folder}: choose another.")
    refuse_unfit_for_folder(case)
    content = {
        "format": FORMAT,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "frozen": freeze(case),
        "power": power_of(case).to_dict() | {"table": power_of(case).table()},
        "cost": estimate_cost(case),
        "environment": environment(),
    }
    plan = plain(content)
    plan["commitment"] = commit(plan)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / SPEC, case.config.to_toml().encode())
    text = json.dumps(plan, indent=2, ensure_ascii=False) + "\n"
    write_whole(folder / PLAN, text.encode())
    for line in filter(None, [case.caution, *case.repeated()]):
        print(f"metastable: {line}", file=sys.stderr)
    return plan


def commit(plan: dict[str, Any]) -> str:
    """SHA-256 of a plan in canonical JSON, its commitment left out."""
    content = {key: value for key, value in plan.items() if key != "commitment"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_plan(path: Path) -> dict[str, Any]:
    """A plan whose commitment follows from its content."""
    try:
        plan = json.loads(path.read_text("utf-8"))
        own = plan["commitment"]
        same = plan["format"] == FORMAT and own == commit(plan)
    except (OSError, ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise ValueError(
            f"{path} must be a plan of `metastable audit plan`, unchanged; its commitment does not "
            "follow from its content: restore it from a copy."
        )
    return plan


def find_plan(folder: Path, given: Path | None) -> Path | None:
    """The plan that was named, or that lies in the audit's folder."""
    if given is not None:
        return given
    return folder / PLAN if (folder / PLAN).is_file() else None


def refuse_changes(plan: dict[str, Any], case: AuditCase) -> None:
    """Refuse an audit that is not the one that was planned, naming what differs."""
    changes = list(changed_entries(plan["frozen"], freeze(case)))
    if changes:
        name, before, after = changes[0]
        shown = [str(value)[:40] for value in (before, after)]
        more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
        raise ValueError(
            f"an audit must be as planned; {name} was {shown[0]} in the plan of {plan['written']} "
            f"and is {shown[1]} now{more}: bring it back, or make a new plan and say so."
        )


def power_of(case: AuditCase) -> Power:
    groups = (("member", "protected"), ("control",))
    n, m = (len({item.document for item in case.split.group(*own)}) for own in groups)
    config = case.config
    scores = len(LIKELIHOOD) - (not config.model.trained and not config.model.reference)
    scores -= config.model.family == "text"  # without M's whole law, no Min-K%++
    scores += len(config.more_scores)
    prompts = sum(len(spec.budgets) for spec in config.generators)
    return Power(n, m, config.level, scores, prompts)


def estimate_cost(case: AuditCase) -> dict[str, float]:
    """Minutes and memory that the audit will take on this machine, right to a factor of a few.

    Floating-point operations: 2 P for each token read, 6 P for each token of a search or of
    training, P the number of parameters; over a quarter of the speed of a matrix product here.
    """
    config, split = case.config, case.split
    if config.model.family == "text":
        # Of each text, shuffled ones too: samples, as many places, and prefixes.
        each = 2 * (1 + (config.model.samples or SAMPLES)) + len(case.generators) + 1
        asked = len(split.items) * each
        return {"minutes": asked / 60, "memory_gib": 0.5, "requests": asked}
    folder = config.model.family == "folder"
    tokens = max(len(item.text) for item in split.items) / (4 if folder else 1)
    vocabulary = 50_000 if folder else 300
    parameters = _parameters(config)
    items = len(split.items)
    read = 2 * parameters * tokens * items
    searches = [_search(own, parameters, tokens, items) for own in case.generators]
    work = 2 * read + sum(searches)
    cheapest = min(searches, default=0.0)
    work += (1 if folder else 3) * (read + cheapest)  # nulls
    if not folder:
        work += 2 * 6 * parameters * config.model.steps * config.model.rows * (tokens + 1)
    speed = USED * _matrix_speed()
    rows = min(config.batch, items)
    numbers = 2 * parameters + 3 * rows * (tokens + 8) * (vocabulary + 1000)
    return {"minutes": work / speed / 60, "memory_gib": 4 * numbers / 2**30, "speed": speed}


def _search(generator: Generator, parameters: float, tokens: float, items: int) -> float:
    """Operations of a generator at one budget, writing included."""
    places = tokens + generator.budget
    write = parameters * places * tokens * items  # each token reads all before it again
    steps, tries = getattr(generator, "steps", 0), getattr(generator, "tries", 0)
    count = min(2 * (getattr(generator, "items", None) or items), items)
    return write + (6 + 2 * tries) * parameters * places * steps * count


def _parameters(config: AuditConfig) -> float:
    """Numbers in the weights: by the size of their files, or of the family."""
    if config.model.path is None:
        return PARAMETERS[config.model.size]
    place = Path(config.model.path)
    size = sum(
        f.stat().st_size for p in ("*.safetensors", "*.bin", "*.gguf") for f in place.glob(p)
    )
    try:
        told = json.loads((place / "config.json").read_text("utf-8"))
        name = str(told.get("dtype") or told.get("torch_dtype") or "float32")
    except (OSError, ValueError):
        name = "float32"
    return max(size, 1) / (4 if "32" in name else 2)


def _matrix_speed() -> float:
    """Operations a second of a matrix product of single precision here."""
    import torch

    matrix = torch.rand(384, 384)
    best = math.inf
    for _ in range(6):  # the first warms up
        start = time.perf_counter()
        matrix.matmul(matrix)
        best = min(best, time.perf_counter() - start)
    return 2 * 384**3 / best
