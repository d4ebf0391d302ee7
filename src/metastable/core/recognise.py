"""What a file or folder is, and which command takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metastable.core.folder import MANIFEST, SPEC
from metastable.core.toml import read_toml

LARGEST = 2**20  # bytes of a file that is looked into
TAKEN_BY = {"flow": "run", "sweep": "sweep", "audit": "audit run"}  # specs; others by learn
GUESSED = {"axes": "sweep", "corpus": "audit", "measure": "flow", "field": "flow", "flow": "flow"}
ANY_SPEC = frozenset(
    {"ensemble", "gaussian", "inspect", "reproduction"}
)  # have no command for their specs


@dataclass(frozen=True)
class Recognised:
    """`what` it is, the command to `use`, and the commands that take it."""

    what: str
    use: str
    taken_by: tuple[str, ...]


def advise(path: str | Path, command: str = "") -> str | None:
    """What stands at `path` and how it is used; None where that is unknown, or `command` takes it.

    >>> advise("model.gguf", "inspect") is None
    True
    """
    thing = recognise(Path(path))
    if thing is None or command in thing.taken_by:
        return None
    return f"{path} is {thing.what}: use `{thing.use}`."


def recognise(path: Path) -> Recognised | None:
    """What stands at `path`, by names of files and keys inside; None where nothing is known."""
    try:
        return _folder(path) if path.is_dir() else _file(path) if path.is_file() else None
    except (OSError, ValueError):
        return None


def _folder(path: Path) -> Recognised | None:
    if (path / MANIFEST).is_file() and (path / SPEC).is_file():
        kind = _kind(path / SPEC) or "run"
        use = f"metastable report {path}"
        return Recognised(
            f"the folder of a finished {kind}",
            use,
            ("compare", "report", "explore", "sweep status", "audit verify", "audit report"),
        )
    if (path / "data.zarr" / "done").is_dir():
        use = f"metastable sweep {path / SPEC} --out {path}"
        return Recognised("an unfinished sweep", use, ("report", "explore", "sweep status"))
    if (path / SPEC).is_file() and (kind := _kind(path / SPEC)):
        use = f"metastable {'run' if kind != 'audit' else 'audit run'} {path / SPEC} --out {path}"
        return Recognised(f"an unfinished {kind}", use, ("explore",))
    if _is_model(path):
        return _model("a Hugging Face model folder", path)
    return None


def _file(path: Path) -> Recognised | None:
    if path.parent.joinpath(MANIFEST).is_file() and path.parent.joinpath(SPEC).is_file():
        if path.name != SPEC:
            use = f"metastable report {path.parent}"
            return Recognised("a file of a finished result", use, ())
    if path.suffix == ".gguf":
        return _model("a model in one file", path)
    if path.suffix == ".safetensors" or (path.name == "config.json" and _is_model(path.parent)):
        return _model("a file of a model", path.parent)
    if path.suffix == ".py":
        return Recognised("Python", f"metastable run SPEC.toml --plugin {path}", ())
    if path.suffix == ".toml" and (kind := _kind(path)):
        command = TAKEN_BY.get(kind, "run" if kind in ANY_SPEC else "learn")
        stated = ("run",) if "kind" in read_toml(path) else ()
        out = "" if command in ("run", "learn") else " --out DIR"
        use = f"metastable {command} {path}{out}"
        plans = ("audit plan", "audit sweep") if kind == "audit" else ()
        return Recognised(f"the spec of a {kind}", use, (command, *stated, *plans))
    return None


def _model(what: str, path: Path) -> Recognised:
    return Recognised(what, f"metastable inspect {path} --text FILE", ("inspect",))


def _is_model(folder: Path) -> bool:
    """Whether a folder holds weights, or a config that names a kind of model."""
    if any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
        return True
    config = _json(folder / "config.json")
    return isinstance(config, dict) and bool({"model_type", "architectures"} & set(config))


def _json(path: Path) -> Any:
    if not path.is_file() or path.stat().st_size > LARGEST:
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        return None


def _kind(path: Path) -> str | None:
    """The kind of a spec: as it says, or by the keys that only one kind has."""
    if path.stat().st_size > LARGEST:
        return None
    tree = read_toml(path)
    if isinstance(tree.get("kind"), str):
        return tree["kind"]
    return next((kind for key, kind in GUESSED.items() if key in tree), None)
