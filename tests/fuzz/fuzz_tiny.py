"""Every spec of the repository, made so small that what passes validation takes little time."""

from __future__ import annotations

import copy
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["tiny_specs"]

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {
    "tokens": 3, "dim": 3, "frames": 3, "horizon": 0.5, "samples": 2, "repetitions": 1,
}  # fmt: skip
_LITTLE_NETWORK = {"widths": [3], "neurons": 2, "horizon": 1.0}
_LITTLE_TRAINING = {"steps": 2, "rate": 0.02, "decay": 0.01}
LESSONS: dict[str, dict[str, Any]] = {
    "classification": {
        "data": {"kind": "spirals", "points": 8, "turns": 0.5},
        "network": {**_LITTLE_NETWORK, "pieces": 1, "layers": 2},
        "training": {**_LITTLE_TRAINING, "batch": 4},
    },
    "deep_limit": {
        "layers": [2, 4], "groups": 1, "draws": 2,
        "data": {"kind": "spirals", "points": 8, "turns": 0.5},
        "network": _LITTLE_NETWORK, "training": _LITTLE_TRAINING,
    },
    "equivariant": {
        "dims": [2], "tokens": 2, "heads": [1], "random": [2], "targets": ["flow"],
        "outputs": ["tangent"], "seeds": 1, "samples": 8, "batch": 4, "steps": 2, "rate": 0.02,
    },
    "steering": {
        "tokens": [2], "dim": 2, "neurons": 2, "tokens_per_piece": 2, "steps": 2,
        "horizons": [0.5], "prompts": False, "cloud": 0,
    },
    "feedforward": {
        "betas": [2.0], "strengths": [1e-3, 0.5], "points": 2, "wells": 2, "tokens": 4,
        "starts": 1, "horizon": 0.5,
    },
    "clusters": {
        "clusters": [2], "free": ["beta"], "tokens": 4, "horizon": 0.5, "steps": 1, "tests": 2,
        "rate": 0.05, "width": 24.0,
    },
    "particle_fit": {
        "model": "model", "prompts": ["a b", "b a"], "training": 1, "steps": 1, "batch": 1,
    },
}  # fmt: skip
AUDIT: dict[str, Any] = {
    "level": 0.01,
    "split": {
        "items": 16, "controls": 16, "background": 6, "length": 12, "ngram": 10, "overlap": 0.75,
        "lead": 0, "per_document": 1,
    },
    "model": {
        "family": "transformer", "size": "basic", "steps": 2, "rows": 4, "rate": 5e-3,
        "device": "cpu",
    },
}  # fmt: skip

# Runs of every kind of measure, field and stepper that a spec can name.
_HEAD = {"kind": "self_attention", "beta": 2.0, "value": 1.0}
_RUNS: list[dict[str, Any]] = [
    {"name": "plain", "measure": {"tokens": 4, "dim": 2, "seed": 0}, "field": {"beta": 1.0}},
    {
        "measure": {"kind": "orthogonal", "tokens": 3, "dim": 3},
        "field": {"kind": "block", "placement": "pre", "alpha": 1.0, "field": _HEAD},
        "flow": {"stepper": {"kind": "layers", "step": 0.25}},
    },
    {
        "measure": {
            "kind": "von_mises_fisher", "tokens": 4, "centre": [1.0, 0.0, 0.0],
            "concentration": 5.0,
        },
        "field": {"kind": "l2_attention", "beta": 1.0, "causal": True},
        "flow": {"stepper": {"kind": "fixed", "step": 0.1, "solver": "euler"}},
    },
    {
        "measure": {"kind": "caps", "tokens_per_cap": 2, "centres": [[1.0, 0.0]], "radius": 0.1},
        "field": {"kind": "sinkhorn_attention", "beta": 1.0},
    },
    {
        "measure": {"kind": "polygon", "tokens": 4},
        "field": {"kind": "kuramoto", "coupling": 1.0, "frequencies": [0.1, 0.2, 0.3]},
    },
    {
        "measure": {"kind": "simplex", "dim": 3},
        "field": {"kind": "potential", "coefficients": [0.0, 1.0, 0.5]},
        "flow": {"stepper": {"kind": "adaptive", "rtol": 1e-6, "atol": 1e-6, "max_steps": 1000}},
    },
    {
        "measure": {"kind": "gaussian_points", "tokens": 4, "dim": 2, "scale": 1.0},
        "field": {"kind": "krause", "radius": 1.0, "smooth": True},
    },
    {
        "measure": {"kind": "tokens", "points": [[1.0, 0.0], [0.6, 0.8]], "weights": [1.0, 2.0]},
        "field": {**_HEAD, "position": [{"kind": "rope", "base": 100.0}]},
    },
    {
        "measure": {"kind": "uniform", "tokens": 4, "dim": 2},
        "field": {"kind": "self_attention", "beta": 4.0},
        "flow": {"horizon": "end", "stepper": {"kind": "merging", "radius": 0.01}},
    },
    {
        "measure": {"kind": "uniform", "tokens": 4, "dim": 2},
        "field": {
            "kind": "feed_forward", "outer": 1.0, "inner": [[1.0, 0.0], [0.0, 1.0]],
            "bias": [0.1, 0.2], "activation": "tanh",
        },
    },
    {
        "measure": {"kind": "uniform", "tokens": 4, "dim": 2},
        "field": {"kind": "piecewise", "fields": [{"beta": 1.0}, {"beta": 2.0}], "switches": [0.2]},
    },
    {
        "measure": {"kind": "uniform", "tokens": 4, "dim": 2},
        "field": {"kind": "gain", "field": _HEAD, "gain": [1.0, 2.0]},
    },
    {
        "measure": {"kind": "density_mode", "dim": 2, "degree": 2, "amplitude": 0.01},
        "field": {"kind": "self_attention", "beta": 2.0},
        "flow": {"stepper": {"kind": "resolution", "least": 8, "most": 16, "tail": 1e-6}},
    },
]  # fmt: skip


@cache
def tiny_specs(kind: str) -> dict[str, dict[str, Any]]:
    """Small specs of a kind (run, sweep, learn, audit), by the name of their origin."""
    folder = ROOT / "experiments"
    if kind == "run":
        runs = [_run(tree) for tree in _RUNS]
        made = {f"run{k:02}": tree for k, tree in enumerate(runs)}
        return made | {"example": _run(_read(ROOT / "examples" / "spec.toml"))}
    places = {"sweep": folder, "learn": folder / "learn", "audit": folder / "audit"}
    files = sorted(places[kind].glob("*.toml"))
    small = {"sweep": _sweep, "learn": _learn, "audit": _audit}
    return {file.stem: small[kind](_read(file)) for file in files}


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _run(tree: dict[str, Any]) -> dict[str, Any]:
    tree = _shrunk(copy.deepcopy(tree))
    tree["flow"] = {"horizon": 0.5, "frames": 3, "seed": 0, **tree.get("flow", {})}
    return tree


def _sweep(tree: dict[str, Any]) -> dict[str, Any]:
    """The same sweep over two values of each axis, each cell tiny."""
    axes = {key: _two(axis) for key, axis in tree["axes"].items()}
    base = _shrunk(tree["base"])
    if "tokens" in axes.get("measure", {}):
        axes["measure"]["tokens"] = [3, 4]
    return _shrunk({k: v for k, v in tree.items() if k not in ("axes", "base")}) | {
        "axes": axes,
        "base": base,
    }


def _two(axis: Any) -> Any:
    if isinstance(axis, list):
        return axis[:2]
    if isinstance(axis, dict) and "from" in axis:
        return {**axis, "count": 2}
    if isinstance(axis, dict):
        return {key: _two(value) for key, value in list(axis.items())[:2]}
    return axis


def _learn(tree: dict[str, Any]) -> dict[str, Any]:
    small = copy.deepcopy(LESSONS[tree["kind"]])
    if tree.get("data", {}).get("kind") == "digits":
        small["data"] = {"kind": "digits"}
        small["network"]["widths"] = [64]
    return {**tree, "seed": 0, **small}


def _audit(tree: dict[str, Any]) -> dict[str, Any]:
    small = copy.deepcopy(AUDIT)
    if tree["corpus"]["kind"] != "digits":
        tree["corpus"] = {"kind": "text", "path": "texts"}
        if "control" in tree:
            tree["corpus"]["names"] = "text00*|text01*|text02*"
            tree["control"] = {"kind": "text", "path": "texts", "names": "text03*|text04*"}
    made = {**tree, **small}
    if tree.get("model", {}).get("family") == "folder":
        made["model"] = {"family": "folder", "path": "model"}
    made["generators"] = [
        {"kind": one["kind"], "budgets": [2], **({} if one["kind"] == "prefix" else {"steps": 2})}
        for one in tree.get("generators", [])
    ]
    return made


def _shrunk(tree: Any, key: str = "") -> Any:
    """The tree with the small value for every known key that holds a number."""
    if isinstance(tree, dict):
        return {k: _shrunk(v, k) for k, v in tree.items()}
    if isinstance(tree, list):
        return [_shrunk(v) for v in tree]
    number = isinstance(tree, int | float) and not isinstance(tree, bool)
    return min(tree, SMALL[key]) if number and key in SMALL else tree
