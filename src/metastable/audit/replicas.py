"""Many audits of one kind: over overlaps, sizes and seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metastable.audit import audit
from metastable.audit.collect import counted
from metastable.audit.spec import AuditConfig
from metastable.core.folder import MANIFEST

MOST = 10_000  # audits of a sweep


def run_replicas(
    config: AuditConfig,
    folder: Path,
    *,
    overlaps: Sequence[float] = (),
    sizes: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> dict[str, Any]:
    """One audit a combination, in its own folder; an empty axis stays at the config's value."""
    own = config.split.overlap, config.model.size, config.seed
    count = math.prod(max(1, len(axis)) for axis in (overlaps, sizes, seeds))
    if count > MOST:
        raise ValueError(
            f"a sweep must be of at most {MOST} audits; got {count}: ask for fewer seeds, overlaps "
            "or sizes."
        )
    axes = [
        list(axis) or [value] for axis, value in zip((overlaps, sizes, seeds), own, strict=True)
    ]
    if not config.model.trained and (overlaps or sizes):
        raise ValueError(
            "a sweep over overlaps or sizes must train its models; the config has one made before: "
            'set family = "transformer", or sweep over seeds alone.'
        )
    # All combinations are checked before the first is run.
    cases = {
        f"overlap={overlap:g},size={size},seed={seed}": config.altered(
            split__overlap=overlap, model__size=size, seed=seed
        )
        for overlap, size, seed in itertools.product(*axes)
    }
    runs = []
    for name, case in cases.items():
        place = folder / name
        if (place / MANIFEST).is_file():
            facts = audit.read_facts(place)  # refuses a damaged one
        else:
            with counted(runs, len(cases), "audits"):
                facts = audit.run_audit(case, place).to_dict()
        kept = "trained_on reproduces overlap exact_rate near_rate out".split()
        runs.append({"name": name} | {key: facts[key] for key in kept})
        audit.write_json(folder / "sweep.json", runs)
    return {"runs": runs, "out": str(folder)}
