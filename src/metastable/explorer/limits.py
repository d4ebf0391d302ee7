"""What the explorer accepts: sizes that a page can draw and this machine can follow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from metastable.core.errors import one_line
from metastable.core.toml import to_toml
from metastable.flows.spec import Experiment
from metastable.measures.spec import Densities


class Refused(ValueError):
    """Input that is not accepted; the message is for the one who sent it."""


@dataclass(frozen=True)
class Limits:
    """Largest values the server accepts.

    - `work`: tokens² · dim · heads, of fields that no fast sum serves.
    - `kept`: tokens · frames of one run.
    - `runs`: computed at the same time; `messages`: a second from one page; `message`: its bytes.
    - `thinking`: seconds for the answer to one question.
    """

    tokens: int = 20_000
    dim: int = 256
    horizon: float = 1e6
    frames: int = 2000
    heads: int = 32
    clusters: int = 256
    kept: float = 8e6
    work: float = 4e9
    runs: int = 4
    connections: int = 64
    messages: int = 240
    message: int = 2_000_000
    thinking: float = 20.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_experiment(tree: Any, limits: Limits) -> Experiment:
    """An experiment from what a page sent, within the limits; `Refused` says what is wrong."""
    if not isinstance(tree, dict):
        raise Refused(f"spec must be an object; got {type(tree).__name__}.")
    _check_leaves(tree)
    digits = lambda seed: isinstance(seed, str) and re.fullmatch(r"[0-9]{1,19}", seed)
    tree = _change_seeds(tree, lambda seed: int(seed) if digits(seed) else seed)
    for section, kind in (("measure", "uniform"), ("field", "self_attention")):
        if isinstance(tree.get(section), dict):
            tree[section] = {"kind": kind, **tree[section]}
    try:
        experiment = Experiment.model_validate(tree)
        to_toml(experiment.model_dump(mode="json", exclude_none=True))
    except ValidationError as error:
        raise Refused(one_line(error)) from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"spec cannot be read: {error}") from None
    _check(experiment, limits)
    return experiment


def read_object(text: str | bytes, rule: str) -> dict[str, Any]:
    """The JSON object that a page sent; `Refused` with the rule for anything else."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(f"{rule}; got something else.") from None
    if not isinstance(tree, dict):
        raise Refused(f"{rule}; got {type(tree).__name__}.")
    return tree


def spec_for_page(experiment: Experiment) -> dict[str, Any]:
    """An experiment as JSON; seeds too long for JavaScript's numbers are strings of digits."""
    long = lambda seed: isinstance(seed, int) and seed > 2**53
    tree = experiment.model_dump(mode="json", exclude_none=True)
    return _change_seeds(tree, lambda seed: str(seed) if long(seed) else seed)


def _change_seeds(node: Any, change: Callable[[Any], Any], key: str = "") -> Any:
    """A copy of a tree with every seed changed."""
    if isinstance(node, dict):
        return {k: _change_seeds(v, change, k) for k, v in node.items()}
    if isinstance(node, list):
        return [_change_seeds(v, change) for v in node]
    return change(node) if key == "seed" else node


def _check(experiment: Experiment, limits: Limits) -> None:
    measure, flow = experiment.measure, experiment.flow
    if getattr(measure, "file", None) is not None:
        raise Refused("measure.file cannot be used here; got a path: give measure.points instead.")
    if isinstance(measure, Densities) or measure.kind == "gaussian":
        what = "a Gaussian" if measure.kind == "gaussian" else "a density"
        raise Refused(
            f"measure.kind must place tokens to be watched; got {measure.kind}: run {what} with "
            "`metastable run`."
        )
    tokens, dim = _sizes(measure)
    heads = sum("beta" in node for node in _tables(experiment.model_dump(mode="json")["field"]))
    _most("measure.tokens", tokens, limits.tokens)
    _most("measure.dim", dim, limits.dim)
    _most("flow.frames", flow.frames, limits.frames)
    _most("the number of heads", heads, limits.heads)
    _most("measure.clusters", getattr(measure, "clusters", 0), limits.clusters)
    if flow.horizon != "end":
        _most("flow.horizon", flow.horizon, limits.horizon)
    _most("tokens × frames", tokens * flow.frames, limits.kept)
    if dim > 3:
        _most("tokens² × dim × heads", tokens**2 * dim * max(heads, 1), limits.work)


def _most(name: str, value: float, limit: float) -> None:
    if value > limit:
        raise Refused(
            f"{name} must be at most {limit:g} in the explorer; got {value:g}: make it smaller, or "
            "use `metastable run`."
        )


def _sizes(measure: Any) -> tuple[int, int]:
    """Tokens and dimension of a start, read from its spec before anything is placed."""
    if measure.kind == "tokens":
        rows = measure.points or [[]]
        return len(rows), len(rows[0])
    if measure.kind == "caps":
        return measure.tokens_per_cap * len(measure.centres), len(measure.centres[0])
    if measure.kind == "von_mises_fisher":
        return measure.tokens, len(measure.centre)
    dim = getattr(measure, "dim", 2)
    return getattr(measure, "tokens", dim + 1), dim


def _tables(node: Any) -> Iterator[dict[str, Any]]:
    """Every table of a tree, however deep."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _tables(child)


def _check_leaves(node: Any, depth: int = 0) -> None:
    """No number or text that JSON could not carry back, and no tree without a bottom."""
    if depth > 12:
        raise Refused("spec must not be nested deeper than 12; flatten it.")
    if isinstance(node, dict | list):
        for child in [*node, *node.values()] if isinstance(node, dict) else node:
            _check_leaves(child, depth + 1)
    elif isinstance(node, int | float) and not isinstance(node, bool):
        whole = isinstance(node, int)
        if abs(node) > 2**53 if whole else not math.isfinite(node):
            shown = f"one of {node.bit_length()} bits" if whole else str(node)
            raise Refused(f"numbers must be finite, and integers below 2^53; got {shown}.")
    elif isinstance(node, str) and re.search(r"[\ud800-\udfff]", node):
        raise Refused(
            f"text must be Unicode without lone surrogates; got {ascii(node)[:60]}: remove them."
        )
