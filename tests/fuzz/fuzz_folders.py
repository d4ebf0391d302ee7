"""Cases of odd folders as arguments: missing, empty, files, loops, of another kind."""

from __future__ import annotations

import random

from tests.fuzz.fuzz_case import Case, mentioned

__all__ = ["folder_case"]

JSON = [b"", b"{}", b"[]", b"null", b"0", b'"x"', b"{", b'{"attributes": []}', b"\xff\xfe",
        b'{"outcome": 3}', b'{"outcome": {"name": "done"}}', b'{"files_sha256": 1}',
        b'{"attributes": {"sweep": 1}, "zarr_format": 3, "node_type": "group"}',
        b"[" * 5000 + b"]" * 5000, b"1" * 5000, b"NaN", b"{}\n{}"]  # fmt: skip
NAMES = ["manifest.json", "spec.toml", "zarr.json", "items.csv", "runs.json", "validation.json",
         "verdicts.json", "config.toml", "report.html", "unfinished/flow.npz", "failures.json",
         "data.zarr/zarr.json", "data.zarr/done", "model.json", "split.json"]  # fmt: skip
PLACES = ["it", "missing", "file", "file/inside", "loop", "loop/inside", "broken", "./it/../it",
          "it/", "", ".", "..", "/dev/null", "/dev/null/x", "/etc/passwd", "/proc/self/fd", "-",
          "x" * 300, "/".join(["d"] * 3000), "é\u202e", "a\nb", " ", "~", "$HOME", "*", "\udcff",
          "spec.toml"]  # fmt: skip
# What reads a folder, and what would write one.
READING = [("compare",), ("report",), ("audit", "report"), ("audit", "verify"), ("sweep", "status")]
WRITING = [
    ("run", "--tokens", "4", "--horizon", "0.5", "--set", "flow.frames=3", "--out"),
    ("run", "spec.toml", "--out"),
    ("learn", "learn.toml", "--out"),
    ("sweep", "sweep.toml", "--out"),
    ("audit", "run", "spec.toml", "--out"),
    ("audit", "canaries", "file", "--pairs", "1", "--words", "2", "--out"),
    ("gaussian", "spectra", "wigner", "--size", "40", "--out"),
    ("gaussian", "spectra", "--matrix"),
    ("inspect", "--text"),
    ("run",),
    ("learn",),
    ("audit", "run", "--out", "out"),
    ("sweep", "--out", "out"),
    ("explore", "--no-browser", "--port", "0"),
]
SPECS: dict[str, bytes | None] = {
    "spec.toml": b"[measure]\ntokens = 4\n[flow]\nhorizon = 0.5\nframes = 3\n",
    "learn.toml": b'kind = "feedforward"\nbetas = [2.0]\npoints = 2\nwells = 2\ntokens = 4\n'
    b"starts = 1\nhorizon = 0.5\n",
    "sweep.toml": b'observables = ["similarity"]\n[axes]\nfield.beta = [1.0]\n'
    b"[base.measure]\ntokens = 4\n[base.flow]\nhorizon = 0.5\nframes = 3\n",
}


def folder_case(chance: random.Random) -> Case:
    """A command on an odd folder; a folder `it` holds some files that are not what they seem."""
    files: dict[str, bytes | None] = {"it": None, "file": b"some text\n", **SPECS}
    held = chance.choice([0, 1, 1, 2, 3])
    for name in chance.sample(NAMES, held):
        files[f"it/{name}"] = chance.choice(JSON) if chance.random() < 0.9 else None
    links = {"loop": "loop", "broken": "missing"}
    place = "it" if held and chance.random() < 0.6 else chance.choice(PLACES)
    command = chance.choice(READING * 3 + WRITING)
    # Where nothing hinders it, a command may compute: seldom.
    if place in ("missing", "~", "$HOME", "*", "é\u202e", "a\nb", " ") and chance.random() < 0.7:
        place = "file/inside"
    as_json = ("--json",) if chance.random() < 0.5 else ()
    head = 2 if command[0] in ("audit", "gaussian") else 1
    argv = (*command[:head], *as_json, *command[head:], place)
    if command[0] == "inspect":
        argv = (*argv, place)
    held_names = ", ".join(name for name in files if name.startswith("it/"))
    return Case(
        kind="folders",
        name=f"{' '.join(command)[:60]} {place[:40]!r} ({held_names})",
        argv=argv,
        files=mentioned(files, (*argv, "it")),
        links=links,
        out=_written(command, place),
    )


def _written(command: tuple[str, ...], place: str) -> str | None:
    """Where the command may write: its --out, or the folder it reports on."""
    if command[-1] == "--out" or command[0] == "report" or command[:2] == ("audit", "report"):
        return place
    return "out" if "out" in command else None
