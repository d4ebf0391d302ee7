"""One experiment as a spec, and how it is read: TOML, overrides, complaints on one line."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from metastable.complaints import one_line
from metastable.spec.fields import Fields, SelfAttentionSpec
from metastable.spec.flow import Flow
from metastable.spec.measures import Measure, Uniform
from metastable.spec.values import Model, fingerprint
from metastable.toml import read_toml, to_toml

__all__ = ["Experiment", "load_experiment"]


class Experiment(Model):
    """One flow: a start, a field (or a list of fields that add), and how to move.

    >>> Experiment().field.beta
    1.0
    """

    name: str = ""
    measure: Measure = Uniform()
    field: Fields = SelfAttentionSpec()
    flow: Flow = Flow()

    @property
    def digest(self) -> str:
        """SHA-256 of the content, the name aside: equal digests mean equal runs."""
        content = self.model_dump(mode="json", exclude={"name"})
        file = getattr(self.measure, "file", None)
        if file is not None and Path(file).is_file():
            content["measure"]["file"] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        return fingerprint(content)

    def to_toml(self) -> str:
        return to_toml(self.model_dump(mode="json", exclude_none=True))


def load_experiment(
    path: str | Path | None, overrides: dict[str, Any], noise: float | None = None
) -> Experiment:
    """Read a TOML file (or start from the defaults) and apply `a.b.c = value` overrides.

    `noise` adds a noise of that κ to whatever fields there are.
    """
    tree: dict[str, Any] = {}
    if path is not None:
        tree = read_toml(path)
        measure = tree.get("measure")
        if isinstance(measure, dict) and isinstance(measure.get("file"), str):
            measure["file"] = str(Path(path).resolve().parent / measure["file"])
    for key, value in overrides.items():
        _assign(tree, key, value)
    for section, kind in (("measure", "uniform"), ("field", "self_attention")):
        if isinstance(tree.get(section), dict):
            tree[section].setdefault("kind", kind)
    if noise is not None:
        fields = tree.get("field", {"kind": "self_attention"})
        fields = fields if isinstance(fields, list) else [fields]
        tree["field"] = [*fields, {"kind": "noise", "kappa": noise}]
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        raise ValueError(one_line(error)) from None


def _assign(tree: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    node: Any = tree
    try:
        for parent in parents:
            if isinstance(node, list):
                node = node[int(parent)]
            else:
                node = node.setdefault(parent, {})
        if isinstance(node, list):
            node[int(last)] = value
        else:
            node[last] = value
    except (ValueError, IndexError, AttributeError, TypeError):
        place = ".".join(parents)
        raise ValueError(
            f"{key} cannot be set: {place} is no table in this spec; for one of several fields "
            f"write --set {place}.0.{last}=..."
        ) from None
