"""What every piece of work leaves behind: one object, and one folder.

spec.toml       what was asked
data.zarr       arrays, an xarray.DataTree; figures as data under `figures`
verdicts.json   rows of what was expected against what was observed
manifest.json   outcome, facts, the answer in a sentence, versions, checksums; written last
figures/        pictures, and report.html: made from the rest, and made again by `report`
unfinished/     checkpoints, while the work can be gone on with
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.figure import Custom, Figure, from_tree
from metastable.core.folder import MANIFEST, UNFINISHED, naming, open_folder, write_whole
from metastable.core.outcome import Outcome
from metastable.core.provenance import write_manifest
from metastable.core.show import Shown, keep_result, table
from metastable.core.spec import Spec
from metastable.core.tables import Tabular
from metastable.core.verdict import Comparison, Verdict

if TYPE_CHECKING:
    import pandas
    import xarray

DATA, VERDICTS = "data.zarr", "verdicts.json"
ROOT = "cells"  # the dataset that lies at the root of data.zarr, which a sweep writes itself
LONG = 80  # letters of facts by name, from which each has a line
HIDDEN = ("message", "clusters")  # facts that a printed result says otherwise


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Result(Shown, Tabular):
    """What a piece of work came to.

    - `outcome`: how it ended, with a sentence and a remedy.
    - `facts`: numbers and words by name, in order.
    - `data`: xarray datasets by name; `tree` has them as one `xarray.DataTree`.
    - `figures`: pictures as data, those aside that are made from `data` for a page.
    - `sentence`: the answer, which heads the page and the terminal.
    - `manifest`: where it came from, once it is kept in a `folder`; before, when it was started.
    """

    spec: Spec
    outcome: Outcome
    facts: Mapping[str, Any]
    verdicts: Comparison = dataclasses.field(default_factory=lambda: Comparison((), "none"))
    data: Mapping[str, xarray.Dataset] = dataclasses.field(default_factory=dict)
    figures: Mapping[str, Figure] = dataclasses.field(default_factory=dict)
    sentence: str = ""
    folder: Path | None = None
    manifest: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.spec.kind

    @property
    def name(self) -> str:
        """That of the spec, or of the folder, or the kind."""
        return self.spec.name or (self.folder.resolve().name if self.folder else self.kind)

    @property
    def tree(self) -> xarray.DataTree:
        import xarray

        nodes: dict[str, Any] = {}
        for name, dataset in self.data.items():
            place = "/" if name == ROOT else _node(name)
            nodes[place] = _storable(dataset).assign_attrs(name=name)
        for name, figure in self.figures.items():
            if not isinstance(figure, Custom):
                nodes[f"figures/{_node(name)}"] = _to_dataset(figure).assign_attrs(name=name)
        return xarray.DataTree.from_dict(nodes)

    def to_dict(self) -> dict[str, Any]:
        """One object of plain values, as every command prints it with --json."""
        return plain(
            {
                "kind": self.kind,
                "name": self.spec.name,
                "sentence": self.sentence,
                **self.facts,
                "outcome": self.outcome.name,
                "message": self.outcome.message,
                "verdicts": self.verdicts.to_dict() if self.verdicts.rows else None,
                "out": None if self.folder is None else str(self.folder),
            }
        )

    def save(self, folder: str | Path) -> Result:
        """Keep it in a new folder, with its page, as `ms.run(spec, folder)` does; gives the kept.

        `ms.open(folder)` reads it, `metastable report` writes its page again.
        """
        return keep_result(self, folder)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a frame of a flow, a cell of a sweep, a start of an ensemble; else the facts."""
        return table(self)

    def __repr__(self) -> str:
        known = {name: value for name, value in self.facts.items() if value is not None}
        lines = {name: shown(value) for name, value in known.items() if name not in HIDDEN}
        lines |= {"outcome": str(self.outcome)}
        if self.verdicts.rows:
            lines |= {"verdicts": repr(self.verdicts).removeprefix("Comparison(")[:-1]}
        width = max(map(len, lines))
        for name, value in known.items():  # what is long and by name, one a line
            if name in lines and isinstance(value, Mapping) and len(lines[name]) > LONG:
                lines[name] = f"\n{'':{width + 4}}".join(_by_name(value))
        rows = [f"  {name:<{width}}  {value}" for name, value in lines.items()]
        return "\n".join([self.sentence or self.name, *rows])


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a study gives before its data and figures take their final form; see `Result`.

    `data`: arrays by name, and by label within a name. `figures`: what is to be drawn, by name.
    """

    outcome: Outcome
    facts: Mapping[str, Any]
    verdicts: tuple[Verdict, ...] = ()
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    figures: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sentence: str = ""


def write_result(
    result: Result, folder: Path, started: datetime, skip: Sequence[str] = (), **extra: Any
) -> Result:
    """Keep a result in a claimed folder, the manifest last; returns it with folder and manifest.

    A result without data leaves `data.zarr` as it is. `skip`: files without a checksum. `extra`
    goes into the manifest too.
    """
    (folder / MANIFEST).unlink(missing_ok=True)  # of the same work, interrupted
    if result.data or result.figures:
        _write_data(result.tree, folder / DATA)
    rows = json.dumps(plain(result.verdicts.to_dict()), indent=1, ensure_ascii=False)
    write_whole(folder / VERDICTS, rows.encode())
    spec = result.spec
    content = spec.model_dump(mode="json", exclude_none=True)
    facts = plain(dict(result.facts))
    about = {"kind": spec.kind, "sentence": result.sentence, **extra}
    write_manifest(folder, content, spec.digest, started, result.outcome, facts, about, skip)
    if result.outcome.name != "interrupted":
        shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    return dataclasses.replace(result, folder=folder, manifest=open_folder(folder, ""))


def read_result(folder: Path, spec: Spec, manifest: Mapping[str, Any]) -> Result:
    """The result in a folder whose files were compared with their checksums."""
    outcome = Outcome(manifest["outcome"]["name"], manifest["outcome"]["message"])
    try:
        verdicts = json.loads((folder / VERDICTS).read_text("utf-8"))
        rows = tuple(Verdict(**row) for row in verdicts["rows"])
        data, figures = _read_data(folder / DATA)
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # whatever Zarr, its codecs and xarray make of it
        raise ValueError(
            f"{folder} is damaged or no result ({type(error).__name__}): restore it from a copy, "
            "or make it again."
        ) from error
    judged, sentence = Comparison(rows, verdicts["clock"]), manifest.get("sentence", "")
    facts = manifest["result"]
    return Result(spec, outcome, facts, judged, data, figures, sentence, folder, manifest)


def plain(value: Any) -> Any:
    """Plain JSON values: arrays and scalars of NumPy unpacked; not a number is None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _write_data(tree: xarray.DataTree, place: Path) -> None:
    """Write arrays beside their place, then put them there."""
    part = place.with_name(f"{place.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        with naming(place), warnings.catch_warnings():
            # All metadata a second time in the root, which readers such as xarray.open_zarr look
            # for first and miss with a warning; Zarr warns that its format 3 does not know it yet.
            warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
            # As an absolute path: Zarr would take a folder called "~" for the home of the user.
            tree.to_zarr(part.resolve(), mode="w-", consolidated=True)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)


def _read_data(place: Path) -> tuple[dict[str, xarray.Dataset], dict[str, Figure]]:
    import xarray

    if not place.is_dir():
        return {}, {}
    with xarray.open_datatree(place.resolve(), engine="zarr", consolidated=False) as tree:
        nodes = [(n.path, n.to_dataset(inherit=False).load()) for n in tree.subtree if n.has_data]
    data, figures = {}, {}
    for path, node in nodes:
        name = ROOT if path == "/" else str(node.attrs.pop("name"))
        if path.startswith("/figures/"):
            figures[name] = _from_dataset(node)
        else:
            data[name] = node
    return data, figures


def _storable(dataset: xarray.Dataset) -> xarray.Dataset:
    """Words of any length: Zarr's format 3 knows none of a fixed one."""
    words = {n: v.astype(object) for n, v in dataset.variables.items() if v.dtype.kind == "U"}
    return dataset.assign(
        {n: v for n, v in words.items() if n not in dataset.coords}
    ).assign_coords({n: v for n, v in words.items() if n in dataset.coords})


def _node(name: str) -> str:
    """A name as one part of a path."""
    return re.sub(r"[^\w .=,-]", "_", name)


def _to_dataset(figure: Figure) -> xarray.Dataset:
    """A figure as one row of numbers and, in JSON, what they are."""
    import xarray

    tree, arrays = figure.to_tree()
    parts, index, start = [], {}, 0
    for name, array in arrays.items():
        index[name] = [start, list(array.shape), array.dtype.str]
        parts.append(np.asarray(array, float).ravel())
        start += array.size
    numbers = np.concatenate([np.zeros(0), *parts])
    return xarray.Dataset(
        {"numbers": ("place", numbers)},
        attrs={"figure": json.dumps(tree), "arrays": json.dumps(index)},
    )


def _from_dataset(node: xarray.Dataset) -> Figure:
    numbers = node["numbers"].values
    arrays = {
        name: numbers[start : start + int(np.prod(shape))].reshape(shape).astype(dtype)
        for name, (start, shape, dtype) in json.loads(node.attrs["arrays"]).items()
    }
    return from_tree(json.loads(node.attrs["figure"]), arrays)


def _by_name(value: Mapping[Any, Any]) -> list[str]:
    width = max(len(str(name)) for name in value)
    return [f"{name!s:<{width}}  {shown(item)}" for name, item in value.items()]


def shown(value: Any) -> str:
    """A fact in a few words; a long list is counted."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(item)}" for name, item in value.items())
    if isinstance(value, list | tuple) and len(value) > 6:
        return f"{len(value)} values"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
