"""Finished results of every kind, made once, tiny; and what is asked of damaged copies."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["ACTIONS", "MADE", "damaged", "make", "numbers", "recipe", "store_digest"]

WORDS = (
    "amber basin cedar delta ember fjord grove haven inlet jetty knoll ledge marsh ocean".split()
)
RUN = ["run", "--tokens", "8", "--beta", "4", "--horizon", "2", "--set", "flow.frames=26"]
RUN += ["--out", "it", "--json"]
REPRODUCE = ["reproduce", "activation_signs", "--fast", "--workers", "1", "--out", "it", "--json"]
LEARN = """
kind = "classification"
[data]
kind = "spirals"
points = 20
[network]
neurons = 2
layers = 2
[training]
steps = 30
batch = 4
"""
SWEEP = """
observables = ["similarity", "last_clusters"]
repetitions = 2
[axes]
field.beta = [1.0, 4.0]
[base.measure]
tokens = 4
[base.flow]
horizon = 0.5
frames = 3
"""
AUDIT = """
[corpus]
kind = "text"
path = "texts"
[split]
items = 16
controls = 16
background = 6
length = 12
ngram = 10
[model]
size = "basic"
steps = 2
rows = 4
[[generators]]
kind = "prefix"
budgets = [4]
[[generators]]
kind = "soft"
budgets = [1]
steps = 2
"""

Call = Callable[[list[str]], tuple[int, str, str]]  # a command → exit code, stdout, stderr

# base → action → command; `it` is the folder.
ACTIONS: dict[str, dict[str, list[str]]] = {
    "run": {
        "compare": ["compare", "it", "--json"],
        "report": ["report", "it", "--json"],
        "again": RUN,
    },
    "cut run": {"again": RUN},
    "learn": {"again": ["learn", "spec.toml", "--out", "it", "--json"]},
    "cut learn": {"again": ["learn", "spec.toml", "--out", "it", "--json"]},
    "sweep": {
        "status": ["sweep", "status", "it", "--json"],
        "report": ["report", "it", "--json"],
        "again": ["sweep", "spec.toml", "--out", "it", "--json"],
    },
    "audit": {
        "report": ["audit", "report", "it", "--json"],
        "again": ["audit", "run", "spec.toml", "--out", "it", "--json"],
    },
    "cut audit": {"again": ["audit", "run", "spec.toml", "--out", "it", "--json"]},
    "reproduce": {"again": REPRODUCE},
}  # fmt: skip
CHECKPOINTS = {"run": 7, "learn": 1, "audit": 1}  # put in place before a result is cut short
TEXTS = {"learn": LEARN, "sweep": SWEEP, "audit": AUDIT}
CHANGING = ("second", "started", "finished", "skipped", "resumed", "out", "store", "page", "report")


def make(name: str, folder: Path, call: Call) -> Path:
    """The made thing of that name under `folder`, made now if it is not there; one at a time."""
    place = folder / name.replace(" ", "_")
    with _locked(folder / "lock"):
        if not (place / "made").is_file():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            here = os.getcwd()
            os.chdir(place)
            try:
                MADE[name](place, call)
            finally:
                os.chdir(here)
            (place / "made").touch()
    return place


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _texts(place: Path, call: Call) -> None:
    chance = random.Random(0)
    for k in range(48):
        (place / f"text{k:03}.txt").write_text(" ".join(chance.choices(WORDS, k=24)))


def _model(place: Path, call: Call) -> None:
    """A tiny ALBERT with a word tokeniser."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from tests.models.made import save_tiny

    save_tiny("albert", place)
    words = {word: k for k, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", "a", "b", *WORDS])}
    inside = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    inside.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=inside, unk_token="<unk>", pad_token="<pad>"
    ).save_pretrained(place)


def _result(kind: str) -> Callable[[Path, Call], None]:
    def make_it(place: Path, call: Call) -> None:
        if kind == "audit":
            (place / "texts").mkdir()
            _texts(place / "texts", call)
        if kind in TEXTS:
            (place / "spec.toml").write_text(TEXTS[kind])
        code, stdout, stderr = call(ACTIONS[kind]["again"])
        if code not in (0, 1) or not (place / "it").is_dir():
            raise RuntimeError(f"the command that makes {kind!r} ended with {code}: {stderr}")
        (place / "stdout.json").write_text(stdout)

    return make_it


def _cut(kind: str) -> Callable[[Path, Call], None]:
    """A result cut short: ended by a KeyboardInterrupt after some checkpoints were written."""

    def make_it(place: Path, call: Call) -> None:
        replace, left = os.replace, [CHECKPOINTS[kind]]

        def cut(source: Any, target: Any, **named: Any) -> None:
            replace(source, target, **named)
            if Path(target).suffix == ".npz":
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt

        os.replace = cut
        try:
            if kind in TEXTS:
                (place / "spec.toml").write_text(TEXTS[kind])
            if kind == "audit":
                (place / "texts").mkdir()
                _texts(place / "texts", call)
            call(ACTIONS[kind]["again"])
        finally:
            os.replace = replace
        if not any(place.rglob("*.npz")):
            raise RuntimeError(f"no checkpoint was left by {kind!r}: {sorted(place.rglob('*'))}")

    return make_it


MADE: dict[str, Callable[[Path, Call], None]] = {
    "texts": _texts,
    "model": _model,
    **{kind: _result(kind) for kind in ("run", "learn", "sweep", "audit", "reproduce")},
    **{f"cut {kind}": _cut(kind) for kind in ("run", "learn", "audit")},
}


def damaged(folder: Path, how: str, which: float, where: float) -> str:
    """Damage one file below `folder`, chosen by shares; returns the shell line that does so."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = files[int(which * len(files))]
    content = file.read_bytes()
    name = shlex.quote(str(file.relative_to(folder.parent)))
    place = int(where * 8 * len(content))
    if how == "delete":
        file.unlink()
        return f"rm {name}"
    if how == "replace":
        file.write_bytes(b"{}\n")
        return f"echo '{{}}' > {name}"
    if how == "flip" and content:
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        file.write_bytes(bytes(changed))
        flip = f"b[{place // 8}] ^= {1 << place % 8}"
        code = f"b = bytearray(open(f, 'rb').read()); {flip}; open(f, 'wb').write(b)"
        return f'python -c "import sys; f = sys.argv[1]; {code}" {name}'
    size = len(content) // 2 if how == "halve" else 0
    file.write_bytes(content[:size])
    return f"truncate -s {size} {name}"


def recipe(base: str) -> list[str]:
    """Shell lines that make a base."""
    kind = base.removeprefix("cut ")
    lines = [f"cat > spec.toml <<'END'{TEXTS[kind]}END"] if kind in TEXTS else []
    if kind == "audit":
        lines.append("# texts/: 48 texts of 24 random words")
    cut = f"  # Ctrl-C after {CHECKPOINTS[kind]} checkpoints" if kind != base else ""
    return [*lines, shlex.join(["metastable", *ACTIONS[kind]["again"]]) + cut]


def numbers(tree: Any) -> Any:
    """What a JSON answer says, without what may differ between two calls: times and places."""
    if isinstance(tree, dict):
        return {k: numbers(v) for k, v in tree.items() if not any(word in k for word in CHANGING)}
    return [numbers(v) for v in tree] if isinstance(tree, list) else tree


def store_digest(folder: Path) -> str:
    """SHA-256 of all arrays of the cells of a sweep, by name."""
    import numpy as np
    import zarr

    digest = hashlib.sha256()
    for name, array in sorted(zarr.open_group(folder / "data.zarr", mode="r").arrays()):
        values = np.asarray(array[...])
        digest.update(json.dumps([name, values.shape, str(values.dtype)]).encode())
        digest.update(repr(values.tolist()).encode())
    return digest.hexdigest()
