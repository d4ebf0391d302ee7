"""Cases of mutated specs: odd values, keys deleted, renamed, added, swapped; damaged files."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from tests.fuzz.fuzz_case import Case
from tests.fuzz.fuzz_tiny import tiny_specs
from tests.fuzz.fuzz_values import HUGE, ODD, WORDS, is_huge, toml_text

__all__ = ["WORK", "spec_case"]

# Counts of work: whoever asks for 2^63 training steps gets them, and Ctrl-C.
WORK = frozenset(
    "steps epochs draws tests starts seeds tries replicas resplits repeats max_steps patience "
    "repetitions samples points horizon batch rows seconds".split()
)
# Share of cases whose --out is taken, so that a spec that passes is refused before the work.
GATED = {"run": 0.4, "sweep": 0.7, "learn": 0.9, "audit": 0.93}
GATED_LESSONS = ("particle_fit", "digits", "open_question_1")  # dear even when tiny
TAKEN: dict[str, bytes | None] = {"taken/other.txt": b"not yours\n"}
# Entries of `reproduce` that take little time, with the settings that --set may change.
ENTRIES = {
    "activation_signs": (),
    "likelihood_logarithm": ("share", "samples"),
    "distance_form": ("tokens", "dim", "betas"),
    "lstm_cell": ("length", "width", "seed"),
}


def spec_case(kind: str, chance: random.Random, *, cheap: bool = False) -> Case:
    """One mutated spec and the command that reads it; a `cheap` one computes nothing."""
    if kind == "reproduce":
        return _entry(chance, cheap)
    specs = tiny_specs(kind)
    base = chance.choice(sorted(specs))
    tree = copy.deepcopy(specs[base])
    notes: list[str] = []
    touched: list[tuple[str, Any]] = []
    spoil = chance.random() < 0.12
    if not spoil or chance.random() < 0.2:
        for _ in range(1 + (chance.random() < 0.25)):
            _mutate(tree, chance, notes, touched)
    content = toml_text(tree).encode("utf-8", "surrogatepass")
    if spoil:
        content = _spoiled(content, chance, notes)
    as_json = ("--json",) if chance.random() < 0.6 else ()
    name = f"{base}: {'; '.join(notes)}"[:200]
    gated = chance.random() < GATED[kind] or base in GATED_LESSONS or cheap
    out = "taken" if gated else "out"
    command = ("audit", "run") if kind == "audit" else (kind,)
    uses = {"texts": "texts"} if kind == "audit" else {}
    if base == "own_model" and not cheap:
        uses["model"] = "model"
    return Case(
        kind=f"spec {kind}",
        name=name,
        argv=(*command, *as_json, "spec.toml", "--out", out),
        files={"spec.toml": content, **(TAKEN if gated else {})},
        uses=uses,
        out=out,
        # A training takes long even when it is tiny, as does the default run of an empty file: they
        # must end when they are asked to.
        long=kind == "learn"
        or "empty" in notes
        or any(key in WORK and _any_huge(value) for key, value in touched),
    )


def _entry(chance: random.Random, cheap: bool) -> Case:
    """A reproduction with odd settings; a `cheap` one names a setting that the entry has not."""
    base = chance.choice(sorted(ENTRIES))
    keys = ENTRIES[base]
    known = bool(keys) and not cheap and chance.random() < 0.5
    key = chance.choice(keys if known else WORDS)
    value = chance.choice(ODD)
    as_json = ("--json",) if chance.random() < 0.6 else ()
    text = toml_text({"v": value}).partition("=")[2].strip()
    argv = ("reproduce", *as_json, base, "--set", f"{key}={text}".replace("\0", "")[:5000])
    argv = (*argv, "--fast", "--workers", "1", "--out", "out")
    long = key in keys and _any_huge(value)
    name = f"{base}: {key} = {str(value)[:40]!r}"
    return Case("spec reproduce", name, argv, out="out", long=long)


def _any_huge(value: Any) -> bool:
    if isinstance(value, list):
        return any(_any_huge(part) for part in value)
    return is_huge(value)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all keys and list items."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*path, key))


def _parent(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree


def _mutate(
    tree: dict[str, Any], chance: random.Random, notes: list[str], touched: list[tuple[str, Any]]
) -> None:
    """Change the tree in place; say so in `notes`, and which keys got what in `touched`."""
    places = list(_places(tree))
    if not places:
        return
    path = chance.choice(places)
    parent, key = _parent(tree, path), path[-1]
    where = ".".join(map(str, path))
    word = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
    what = chance.choices(["odd", "delete", "rename", "add", "swap", "wrap"], [70, 8, 6, 6, 7, 3])[
        0
    ]
    if what in ("odd", "near"):
        near = _near(parent[key], chance) if what == "near" else None
        value = copy.deepcopy(chance.choice(ODD)) if near is None else near
        parent[key] = value
        touched.append((word, value))
        notes.append(f"{where} = {str(value)[:40]!r}")
    elif what == "delete":
        del parent[key]
        touched.append(("horizon", HUGE))  # a default in its place may mean more work
        notes.append(f"no {where}")
    elif what in ("rename", "add") and isinstance(parent, dict):
        new = chance.choice(WORDS)
        parent[new] = parent.pop(key) if what == "rename" else copy.deepcopy(chance.choice(ODD))
        touched.append((new, parent[new]))
        notes.append(f"{what} {where} {new[:20]!r}")
    elif what == "swap":
        other = chance.choice(places)
        above = _parent(tree, other)
        if path[: len(other)] != other and other[: len(path)] != path:
            parent[key], above[other[-1]] = above[other[-1]], parent[key]
            touched += [(word, parent[key]), (str(other[-1]), above[other[-1]])]
        notes.append(f"swap {where} and {'.'.join(map(str, other))}")
    else:
        parent[key] = chance.choice([lambda v: [v], lambda v: [v] * 50, lambda v: {"x": v}])(
            parent[key]
        )
        touched.append((word, parent[key]))
        notes.append(f"wrap {where}")


def _near(value: Any, chance: random.Random) -> Any:
    """Another number of about the same cost; None for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return chance.choice([value + 1, value - 1, -value, 2 * value, float(value), str(value)])
    return value * chance.choice([-1.0, 0.5, 2.0, 1e-3, 10.0, 1e3, 1e-9, 1e9])


def _spoiled(content: bytes, chance: random.Random, notes: list[str]) -> bytes:
    """A file damaged on its way."""
    at = chance.randrange(len(content) + 1)
    flipped = bytearray(content or b"\0")
    for _ in range(chance.randrange(1, 5)):
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    depth = chance.choice([100, 1000, 5000, 100_000])
    dots = min(depth, 5000)  # the time of the standard library's parser is quadratic in them
    ways = {
        "truncated": content[:at],
        "bits flipped": bytes(flipped),
        "byte order mark": b"\xef\xbb\xbf" + content,
        "UTF-16": content.decode().encode("utf-16"),
        "CRLF": content.replace(b"\n", b"\r\n"),
        "CR": content.replace(b"\n", b"\r"),
        "NUL": content[:at] + b"\0" + content[at:],
        "empty": b"",
        "random bytes": chance.randbytes(200),
        f"{depth} brackets": b"a = " + b"[" * depth + b"]" * depth + b"\n" + content,
        f"{depth} braces": b"a = " + b"{a = " * depth + b"1" + b"}" * depth + b"\n" + content,
        f"{dots} dots": b".".join([b"a"] * dots) + b" = 1\n" + content,
        "twice": content + content,
        "JSON": b'{"kind": "uniform"}',
        "not UTF-8": content + b'x = "\xff\xfe"\n',
    }
    what = chance.choice(list(ways))
    notes.append(what)
    return ways[what]
