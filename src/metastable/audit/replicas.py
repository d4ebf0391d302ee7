"""Many audits of one kind: over overlaps, sizes and seeds; and of models that saw nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metastable.audit import audit
from metastable.audit.collect import counted, write_rows
from metastable.audit.evidence import questions
from metastable.audit.spec import AuditConfig
from metastable.audit.validity import calibration, main_p, resplit
from metastable.core import checks
from metastable.core.folder import MANIFEST, claimed

MOST = 10_000  # audits of a sweep, models of a null


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
    if config.model.family == "folder" and (overlaps or sizes):
        raise ValueError(
            "a sweep over overlaps or sizes must train its models; the config has a model folder: "
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
        kept = "verdict reason p_value overlap_estimate auc exact_rate out".split()
        runs.append({"name": name} | {key: facts[key] for key in kept})
        audit.write_json(folder / "sweep.json", runs)
    return {"runs": runs, "out": str(folder)}


def run_null(
    config: AuditConfig, folder: Path, *, replicas: int = 20, resplits: int = 500
) -> dict[str, Any]:
    """p-values where there is nothing to find: they must be uniform.

    `replicas` models are trained on the background alone, each with a split and a seed of its own,
    and audited by the cheapest prompt; then their items, none of which any model has seen, are
    dealt into halves at random `resplits` times in all. Rejections at 5 % should lie in the
    binomial band, and the Kolmogorov–Smirnov p-value above 0.01.
    """
    checks.integer("replicas", replicas, 1)
    checks.integer("resplits", resplits, replicas, "Every replica's items are dealt at least once.")
    if config.model.family == "folder":
        raise ValueError(
            "audit null must train its models; the config has a model folder: set family = "
            '"transformer" to see the null of a model of your own.'
        )
    if replicas > MOST or resplits > 100 * MOST:
        raise ValueError(
            f"replicas must be at most {MOST} and resplits {100 * MOST}; got {replicas} and "
            f"{resplits}: ask for fewer."
        )
    audit.prepare(config.altered(split__overlap=0.0))  # refuses what cannot be dealt out
    with claimed(folder, config, "audit"):
        return _null(config, folder, replicas, resplits)


def _null(config: AuditConfig, folder: Path, replicas: int, resplits: int) -> dict[str, Any]:
    """Train and audit the models of a null in the claimed folder; see `run_null`."""
    p_values, halves = [], []
    shares = np.diff(np.linspace(0, resplits, replicas + 1).astype(int)).tolist()
    for k, share in enumerate(shares):
        own = config.altered(split__overlap=0.0, seed=config.seed + k)
        place = folder / f"seed={own.seed}"
        case = audit.prepare(own)
        place.mkdir(exist_ok=True)
        with counted(p_values, replicas, "models"):
            fitted = audit.fit(case, case.split.training, own.seed, place / "training.npz")
            generators = audit.cheapest(audit.build_generators(own.generators))
            rows = case.ask(fitted.target, case.split.items, generators, folder=place / "parts")
        write_rows(rows, place / audit.ITEMS)
        p_values.append(main_p(rows, seed=own.seed))
        main = questions(rows)[0]
        pooled = np.concatenate([main.protected, main.control])
        halves += resplit(pooled, splits=share, seed=own.seed)
    facts = {
        "replicas": replicas,
        "resplits": resplits,
        "replica_p_values": p_values,
        "replica_ks_p": calibration(p_values)[0],
        "resplit_ks_p": calibration(halves)[0],
        "rejections_at_5pct": float(np.mean(np.array(p_values + halves) <= 0.05)),
        "out": str(folder),
    }
    audit.write_json(folder / "null.json", facts | {"resplit_p_values": halves})
    return facts
