"""A sweep as a spec: axes over the keys of one experiment, and what to observe in every cell."""

from __future__ import annotations

import json
import math
import re
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from metastable.core.spec import LARGEST, Count, Model, Positive, Real, Seed, Spec
from metastable.core.toml import to_toml
from metastable.flows.spec import Experiment

SECTIONS = ("measure", "field", "flow")
LONGEST = 1_000_000  # values along one axis


class Range(Model):
    """`count` values from `from` to `to`, equally spaced, or by equal ratios with `log`.

    Values are rounded to twelve digits, so that a longer range of the same spacing repeats them.

    >>> Range.model_validate({"from": 1, "to": 100, "count": 3, "log": True}).values
    [1, 10, 100]
    """

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    first: Real = Field(alias="from")
    last: Real = Field(alias="to")
    count: Annotated[Count, Field(le=LONGEST)]
    log: bool = False

    @model_validator(mode="after")
    def _ends(self) -> Range:
        if self.log and not (self.first > 0 and self.last > 0):
            raise ValueError(f"must go between numbers > 0 with log, not from {self.first:g}")
        return self

    @property
    def values(self) -> list[Any]:
        shares = [k / max(self.count - 1, 1) for k in range(self.count)]
        if self.log:
            a, b = math.log(self.first), math.log(self.last)
            raw = [math.exp(a + (b - a) * s) for s in shares]
        else:
            raw = [self.first + (self.last - self.first) * s for s in shares]
        values = [float(f"{value:.12g}") for value in raw]
        return [int(v) for v in values] if all(v.is_integer() for v in values) else values


class Budget(Model):
    """Limits: a sweep stops feeding cells after `seconds`, and refuses a store above `bytes`."""

    seconds: Positive | None = None
    bytes: Count | None = None


Integer = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Scalar = bool | Integer | float | str
Values = Annotated[list[Scalar], Field(min_length=1)]
Cases = dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+-]+$")], dict[str, Any]]


def _form(value: Any) -> str:
    if isinstance(value, Range) or (isinstance(value, dict) and "from" in value):
        return "range"
    return "cases" if isinstance(value, dict) else "values"


Axis = Annotated[
    Annotated[Values, Tag("values")]
    | Annotated[Range, Tag("range")]
    | Annotated[Cases, Tag("cases")],
    Discriminator(_form),
]


def _named(observable: Any) -> Any:
    """The name of an observable; a function of a measure is registered under its own."""
    if not callable(observable):
        return observable
    from metastable.sweep.observables import register_observable

    register_observable(observable)
    return observable.__name__


class Sweep(Spec):
    """Many runs of one experiment: every combination of the axes, `repetitions` times.

    - `axes`: a key of the base such as `field.beta`, with a list or a range; or any other name,
      with a table of cases, each a table of keys to set.
    - `samples`: independent starts inside one cell, over which observables are averaged.
    - `same_starts`: all cells of one repetition begin from the same random numbers.
    - `base`: an experiment; its seeds are those of the cells, unless an axis sets them.

    >>> sweep = Sweep(axes={"field.beta": [1.0, 2.0]}, observables=("clusters",))
    >>> sweep.values("field.beta")
    [1.0, 2.0]
    """

    PATHS = ("base.measure.file",)

    kind: Literal["sweep"] = "sweep"
    axes: dict[str, Axis] = Field(min_length=1)
    repetitions: Count = 1
    samples: Count = 1
    same_starts: bool = False
    seed: Seed = 0
    observables: tuple[Annotated[str, BeforeValidator(_named)], ...] = Field(min_length=1)
    base: dict[str, Any] = Field(default_factory=dict)
    budget: Budget = Budget()

    @model_validator(mode="before")
    @classmethod
    def _flat_axes(cls, tree: Any) -> Any:
        """TOML reads `field.beta = …` as nested tables; axes are known by their dotted key."""
        if isinstance(tree, dict) and isinstance(tree.get("axes"), dict):
            axes: dict[str, Any] = {}
            for key, value in tree["axes"].items():
                axes |= dict(flattened(key, value, ("from",))) if key in SECTIONS else {key: value}
            return {**tree, "axes": axes}
        return tree

    @model_validator(mode="after")
    def _distinct(self) -> Sweep:
        for key in self.axes:
            keys = self.values(key)
            if len(set(map(canonical, keys))) < len(keys):
                raise ValueError(f"axes.{key} must hold each value once, not {keys}")
            is_key = key.split(".")[0] in SECTIONS and "." in key
            if is_key == isinstance(self.axes[key], dict):
                raise ValueError(
                    f"axes.{key} must be a key such as field.beta with a list or a range, or "
                    "another name with a table of cases"
                )
        if len(set(self.observables)) < len(self.observables):
            raise ValueError(f"observables must be named once each, not {list(self.observables)}")
        return self

    @classmethod
    def from_tree(cls, tree: Any, overrides: Any = None, folder: Path | None = None) -> Sweep:
        """As of every spec; errors name an axis by its key alone."""
        try:
            return super().from_tree(tree, overrides, folder)
        except ValueError as error:
            raise ValueError(re.sub(r"\.(values|range|cases)\b", "", str(error))) from None

    def values(self, key: str) -> list[Any]:
        """The values along one axis, in order: numbers, words, or names of cases."""
        axis = self.axes[key]
        return axis.values if isinstance(axis, Range) else list(axis)

    def overrides(self, key: str, value: Any) -> dict[str, Any]:
        """What one value of one axis sets in the base, by dotted key."""
        axis = self.axes[key]
        if not isinstance(axis, dict):
            return {key: value}
        return {k: v for name, node in axis[value].items() for k, v in flattened(name, node)}

    def to_toml(self) -> str:
        return to_toml({"kind": self.kind} | self.model_dump(mode="json", exclude_defaults=True))


def canonical(value: Any) -> Any:
    """A value of an axis up to its spelling: 2 and 2.0 are one; true is not 1."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else json.dumps(value)


def experiment_with(base: dict[str, Any], overrides: dict[str, Any]) -> Experiment:
    """The base with some keys set; a whole table is set before the keys inside it."""
    ordered = sorted(overrides.items(), key=lambda item: item[0].count("."))
    # Copied, since overrides are assigned into the tree.
    return Experiment.from_tree({}, deepcopy({**base, **dict(ordered)}))


def flattened(
    key: str, node: Any, whole: tuple[str, ...] = ("from", "draw", "kind")
) -> list[tuple[str, Any]]:
    """Leaves of nested tables by dotted key; a table with one of the keys `whole` is a leaf."""
    if not isinstance(node, dict) or not node or set(whole) & set(node):
        return [(key, node)]
    return [leaf for k, child in node.items() for leaf in flattened(f"{key}.{k}", child, whole)]


def differences(old: Sweep, new: Sweep, *, growing: bool = False) -> list[str]:
    """What has changed, a line each; the name and the budget do not count.

    With `growing` the values of axes and the number of repetitions do not count either.

    >>> a = Sweep(axes={"field.beta": [1.0, 2.0]}, observables=("order",))
    >>> differences(a, a.model_copy(update={"axes": {"field.beta": [2, 3]}, "seed": 1}))
    ['axes.field.beta: 3 only now, 1.0 only in the store', 'seed: 0 in the store, 1 now']
    """
    lines = []
    for key in dict.fromkeys((*old.axes, *new.axes)):
        if key not in old.axes or key not in new.axes:
            lines.append(f"axes.{key}: only {'now' if key in new.axes else 'in the store'}")
            continue
        more, fewer = _missing(new, old, key), _missing(old, new, key)
        if (more or fewer) and not growing:
            sides = [f"{_few(more)} only now"] * bool(more)
            sides += [f"{_few(fewer)} only in the store"] * bool(fewer)
            lines.append(f"axes.{key}: {', '.join(sides)}")
        if isinstance(old.axes[key], dict) and isinstance(new.axes[key], dict):
            shared = set(old.values(key)) & set(new.values(key))
            changed = [c for c in shared if old.overrides(key, c) != new.overrides(key, c)]
            lines += [f"axes.{key}.{case}: another case of that name" for case in sorted(changed)]
    first, second = _content(old, growing), _content(new, growing)
    for key in sorted({*first, *second}):
        a, b = first.get(key, "nothing"), second.get(key, "nothing")
        if a != b:
            lines.append(f"{key}: {a} in the store, {b} now")
    return lines


def extended(old: Sweep, new: Sweep) -> Sweep:
    """The old sweep with the new values after its own along each axis, for `--add`.

    Anything else that differs is refused.
    """
    rest = differences(old, new, growing=True)
    if rest:
        raise ValueError(
            "--add may extend axes and repetitions only; this spec also differs from the store: "
            f"{'; '.join(rest)}."
        )
    axes: dict[str, Any] = {}
    for key, axis in old.axes.items():
        more = _missing(new, old, key)
        if isinstance(axis, dict):
            axes[key] = {**axis, **{name: new.axes[key][name] for name in more}}  # type: ignore[index]
        else:
            axes[key] = [*old.values(key), *more] if more else axis
    repetitions = max(old.repetitions, new.repetitions)
    grown = {"axes": axes, "repetitions": repetitions, "name": new.name, "budget": new.budget}
    return old.model_copy(update=grown)


def _missing(inside: Sweep, outside: Sweep, key: str) -> list[Any]:
    """Values along an axis of one sweep that the other does not have."""
    known = {canonical(value) for value in outside.values(key)}
    return [value for value in inside.values(key) if canonical(value) not in known]


def _content(sweep: Sweep, growing: bool) -> dict[str, Any]:
    tree = sweep.model_dump(mode="json", exclude={"axes", "name", "budget"})
    base = {key: node for key, node in tree.pop("base").items() if key != "name"}
    if growing:
        tree.pop("repetitions")
    leaves = (leaf for key, node in base.items() for leaf in flattened(f"base.{key}", node))
    return tree | dict(leaves)


def _few(values: list[Any]) -> str:
    return ", ".join(map(str, values[:3])) + (f" and {len(values) - 3} more" * (len(values) > 3))
