"""One spec against another: what differs, and their union along the axes."""

from __future__ import annotations

from typing import Any

from metastable.sweep.spec import Sweep, canonical, flattened


def differences(old: Sweep, new: Sweep, *, growing: bool = False) -> list[str]:
    """What has changed, a line each; the name and the budget do not count.

    With `growing` the values of axes and the number of repetitions do not count either.

    >>> a = Sweep(axes={"field.beta": [1.0, 2.0]}, observables=("order",))
    >>> differences(a, a.model_copy(update={"axes": {"field.beta": [2, 3]}, "seed": 1}))
    ['axes.field.beta: 3 only now, 1.0 only in the store', 'seed: 0 in the store, 1 now']
    """
    found = []
    for key in dict.fromkeys((*old.axes, *new.axes)):
        if key not in old.axes or key not in new.axes:
            found.append(f"axes.{key}: only {'now' if key in new.axes else 'in the store'}")
            continue
        more, fewer = _missing(new, old, key), _missing(old, new, key)
        if (more or fewer) and not growing:
            told = [f"{_few(more)} only now"] * bool(more)
            told += [f"{_few(fewer)} only in the store"] * bool(fewer)
            found.append(f"axes.{key}: {', '.join(told)}")
        if isinstance(old.axes[key], dict) and isinstance(new.axes[key], dict):
            shared = set(old.values(key)) & set(new.values(key))
            changed = [c for c in shared if old.overrides(key, c) != new.overrides(key, c)]
            found += [f"axes.{key}.{case}: another case of that name" for case in sorted(changed)]
    first, second = _content(old, growing), _content(new, growing)
    for key in sorted({*first, *second}):
        a, b = first.get(key, "nothing"), second.get(key, "nothing")
        if a != b:
            found.append(f"{key}: {a} in the store, {b} now")
    return found


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
