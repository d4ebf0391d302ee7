"""Answers to single questions, made in a process of its own: theory, places, folders, downloads."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metastable.explorer.folder import Folder
from metastable.explorer.keep import complete
from metastable.explorer.live import live
from metastable.explorer.packet import pack
from metastable.explorer.recording import first_frame
from metastable.explorer.scene import Scene
from metastable.explorer.standalone import standalone_page
from metastable.explorer.theory import predict_experiment
from metastable.fields.sums import Dense
from metastable.spec.experiment import Experiment


def answer(job: dict[str, Any]) -> bytes:
    """The packet that answers a job: {"think": name of the question, and its arguments}.

    Its kind is "answer", with the result under that key; that of "place" is a frame. Questions
    with a `file` write their result there.
    """
    arguments = {key: value for key, value in job.items() if key != "think"}
    result = _QUESTIONS[job["think"]](**arguments)
    return result if isinstance(result, bytes) else pack({"kind": "answer", "answer": result})


def _predict(spec: dict[str, Any], fine: bool = False) -> dict[str, Any]:
    return predict_experiment(Experiment.model_validate(spec), fine)


def _place(spec: dict[str, Any]) -> bytes:
    return first_frame(Experiment.model_validate(spec))


def _compile(spec: dict[str, Any]) -> None:
    """Run an experiment as far as its first motion: what had to be compiled stays compiled."""
    run = live(Experiment.model_validate(spec))
    scene = Scene(run.field, run.sum or Dense())
    for _, frame in zip(range(2), run, strict=False):
        scene.packet(frame, full=True)


def _list(root: str) -> dict[str, list[str]]:
    return Folder(root).list()


def _recording(root: str, name: str, file: str) -> None:
    Path(file).write_bytes(Folder(root).recording(name))


def _sweep(root: str, name: str) -> dict[str, Any]:
    return Folder(root).sweep(name)


def _cell(root: str, name: str, index: int) -> dict[str, Any]:
    return Folder(root).cell(name, index)


def _zip(result: str, file: str) -> None:
    """Complete a result folder and pack it; what it holds is compressed already."""
    folder, part = Path(result), Path(file).with_suffix(".part")
    complete(folder)
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, Path("run") / path.relative_to(folder))
    part.replace(file)


def _html(recording: str, file: str) -> None:
    part = Path(file).with_suffix(".part")
    part.write_text(standalone_page(Path(recording)), encoding="utf-8")
    part.replace(file)


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "predict": _predict,
    "place": _place,
    "compile": _compile,
    "list": _list,
    "recording": _recording,
    "sweep": _sweep,
    "cell": _cell,
    "zip": _zip,
    "html": _html,
}
