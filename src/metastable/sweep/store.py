"""The store of a sweep: whatever happens to the process, a cell marked done is whole.

One process writes. A file is written beside its place and renamed into it, so that it is there
whole or not at all; the data of a cell come first, its outcome next, its done bit last. When a
sweep goes on, every cell marked done is read again, and one whose data are damaged is computed
anew.
"""

from __future__ import annotations

import json
import os
import platform
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.folder import FULL, LOCK, MANIFEST, SPEC, DiskFull, Lock
from metastable.core.outcome import Outcome
from metastable.core.provenance import versions
from metastable.core.result import DATA, VERDICTS
from metastable.sweep import layout
from metastable.sweep.observables import Observable
from metastable.sweep.plan import Index, Plan, plan_sweep
from metastable.sweep.spec import Sweep, differences, extended

LOG, FAILURES, PART = "log.jsonl", "failures.json", ".part"
ROOT = f"{DATA}/zarr.json"


class Store:
    """A sweep on disk, open for writing; no other process can open it so at the same time.

    `done` and `outcome` (plan.shape) are the state of all cells; `failures` says, by index, why a
    cell has none. `repaired` counts cells that were marked done and are damaged.
    """

    def __init__(self, folder: Path, sweep: Sweep, *, add: bool = False):
        self.folder, self.data = folder, folder / DATA
        self.plan = plan_sweep(sweep)  # bad input is refused before anything is written
        self.log = None
        sweep.to_toml()  # what TOML cannot write is refused as well
        _refuse_foreign(folder)
        self.lock = Lock(folder, "sweep")
        try:
            self.log = open(folder / LOG, "ab")
            self.plan = _agreed(folder, self.plan, add)
            for sealed in (MANIFEST, VERDICTS):  # of the sweep as it was; written again at the end
                (folder / sealed).unlink(missing_ok=True)
            self._write(SPEC, self.plan.sweep.to_toml().encode())
            self._prepare()
            self.repaired = self._verify()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.flush()
        finally:
            self.close()

    def close(self) -> None:
        if self.log is not None:
            self.log.close()
        self.lock.release()

    def keep(self, index: Index, outcome: Outcome, values: dict[str, np.ndarray]) -> None:
        """Keep what became of a cell; it counts after the next `flush`."""
        if outcome.name == "done":
            for one in self.plan.kept:
                array = np.asarray(values[one.name], float)
                self._write(f"{DATA}/{self._chunk(one, index)}", layout.encoded(array))
        else:
            self.failures[self._key(index)] = {"outcome": outcome.name, "message": outcome.message}
        known = outcome.name in layout.OUTCOMES
        self.outcome[index] = layout.OUTCOMES.index(outcome.name if known else "error")
        self.done[index] = outcome.name == "done"
        self._dirty.add(tuple(k // layout.chunk_of(len(index)) for k in index))

    def forget(self, indices: Any) -> None:
        """Take marks away, before the cells are computed again."""
        for index in indices:
            self.done[index], self.outcome[index] = False, 0
            self.failures.pop(self._key(index), None)
            self._dirty.add(tuple(k // layout.chunk_of(len(index)) for k in index))
        self.flush()

    def flush(self) -> None:
        """Bring the marks to disk: why cells failed, then all outcomes, then all done bits."""
        if not self._dirty:
            return
        if self.failures or (self.folder / FAILURES).exists():
            failures = dict(sorted(self.failures.items()))
            self._write(FAILURES, json.dumps(failures, indent=1, ensure_ascii=False).encode())
        for name, array in (("outcome", self.outcome), ("done", self.done)):
            for index, part in layout.block_slices(self.plan.shape):
                if index in self._dirty:
                    self._write_block(name, index, array[part])
        self._dirty.clear()

    def note(self, **what: Any) -> None:
        """Add a line to the log, the one file that differs from session to session."""
        what = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "pid": os.getpid()} | what
        assert self.log is not None
        os.write(self.log.fileno(), (json.dumps(what) + "\n").encode())

    def _prepare(self) -> None:
        """Write what is missing or damaged of the metadata, and read the marks."""
        (self.folder / PART).unlink(missing_ok=True)
        about = _manifest(self.plan.sweep, _attributes(self.folder))
        for path, data in layout.metadata(self.plan, about).items():
            if _read(self.data / path) != data:
                (self.data / path).parent.mkdir(parents=True, exist_ok=True)
                self._write(f"{DATA}/{path}", data)
        self._dirty: set[Index] = set()
        self.failures: dict[str, Any] = _read_json(self.folder / FAILURES) or {}
        self.outcome = self._read_blocks("outcome", np.int8)
        self.done = self._read_blocks("done", np.bool_) & (self.outcome == 1)

    def _read_blocks(self, name: str, dtype: Any) -> np.ndarray:
        """Marks from disk; a damaged block marks nothing."""
        array = np.zeros(self.plan.shape, dtype)
        side = (layout.chunk_of(array.ndim),) * array.ndim
        for index, part in layout.block_slices(array.shape):
            data = _read(self.data / name / layout.chunk_name(index))
            block = None if data is None else layout.decoded(data, dtype, side)
            if block is not None:
                array[part] = block[tuple(slice(n) for n in array[part].shape)]
        return array

    def _write_block(self, name: str, index: Index, values: np.ndarray) -> None:
        side = layout.chunk_of(values.ndim)
        padded = np.pad(values, [(0, side - n) for n in values.shape])
        self._write(f"{DATA}/{name}/{layout.chunk_name(index)}", layout.encoded(padded))

    def _verify(self) -> int:
        """Read all cells marked done, and take the mark from those that are damaged."""
        frames = () if self.plan.times is None else (len(self.plan.times),)

        def whole(one: Observable, index: Index) -> bool:
            data = _read(self.data / self._chunk(one, index))
            shape = frames if one.per_time else ()
            return data is not None and layout.decoded(data, np.float64, shape) is not None

        marked = map(tuple, np.argwhere(self.done).tolist())
        damaged = [i for i in marked if not all(whole(one, i) for one in self.plan.kept)]
        self.forget(damaged)
        return len(damaged)

    def _chunk(self, one: Observable, index: Index) -> str:
        return f"{one.name}/{layout.chunk_name(index + (0,) * one.per_time)}"

    def _key(self, index: Index) -> str:
        """The place of a cell in words, which stays when axes grow."""
        named = zip(self.plan.dims, self.plan.values, index, strict=False)
        return ", ".join([*(f"{d}={v[k]}" for d, v, k in named), f"repetition={index[-1]}"])

    def _write(self, path: str, data: bytes) -> None:
        part = self.folder / PART
        try:
            with open(part, "wb") as file:
                file.write(data)
            os.replace(part, self.folder / path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise (DiskFull if error.errno in FULL else OSError)(
                error.errno,
                f"{path} cannot be written ({error.strerror}); every cell marked done is whole: "
                "make room and run the same command again",
                str(self.folder),
            ) from None


def kept_sweep(folder: Path) -> Sweep:
    """The spec of a store, from its root or, should that be damaged, from the copy beside it."""
    tree = _attributes(folder).get("sweep")
    if not isinstance(tree, dict):
        try:
            tree = tomllib.loads((_read(folder / SPEC) or b"").decode()) or None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            tree = None
    if tree is None:
        raise ValueError(
            f"STORE must be a sweep made by `metastable sweep --out`; {folder} has no readable "
            f"{ROOT} or {SPEC}: restore one of them, or choose another folder."
        )
    return Sweep.from_tree(tree)


def _refuse_foreign(folder: Path) -> None:
    """Refuse a file, and a folder that holds other things than a sweep."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out must be a folder; {folder} is a file: choose another name.")
    ours = {DATA, SPEC, LOG, PART, LOCK}
    if folder.is_dir() and not ours & set(os.listdir(folder)) and any(folder.iterdir()):
        raise ValueError(
            f"--out must be a new folder or a sweep; {folder} holds something else: choose another."
        )


def _agreed(folder: Path, plan: Plan, add: bool) -> Plan:
    """The plan of a new store, or of an old one whose spec is the same, or may grow."""
    fresh = not set(os.listdir(folder)) - {LOG, PART, LOCK}
    if fresh:
        return plan
    kept, sweep = kept_sweep(folder), plan.sweep
    if add:
        return plan_sweep(extended(kept, sweep))
    changed = differences(kept, sweep)
    if changed:
        raise ValueError(
            f"--out {folder} holds another sweep: {'; '.join(changed)}. Choose another folder, or "
            "--add to extend axes and repetitions."
        )
    return plan_sweep(kept.model_copy(update={"name": sweep.name, "budget": sweep.budget}))


def _attributes(folder: Path) -> dict[str, Any]:
    """Attributes in the root of a store, none where it is damaged."""
    attributes = (_read_json(folder / ROOT) or {}).get("attributes")
    return attributes if isinstance(attributes, dict) else {}


def _manifest(sweep: Sweep, kept: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the store: the spec, and on what it was begun; that part never changes."""
    begun = kept.get("begun")
    if begun is None:
        import jax

        device = [str(device) for device in jax.devices()]
        begun = {"versions": versions(), "platform": platform.platform(), "device": device}
    return {"title": sweep.name, "sweep": sweep.model_dump(mode="json"), "begun": begun}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        tree = json.loads(_read(path) or b"null")
    except ValueError:
        return None
    return tree if isinstance(tree, dict) else None
