"""Sweeps small enough for tests, and stores compared byte by byte."""

from pathlib import Path

from metastable.sweep.spec import Sweep

SMALL = """
observables = ["similarity", "last_clusters"]
repetitions = {repetitions}
[axes]
field.beta = {{ from = 0.5, to = 5.0, count = {count} }}
measure.tokens = [4, 6]
[base.flow]
horizon = 2.0
frames = 3
"""


def small(count=5, repetitions=2, **more) -> Sweep:
    return Sweep.model_validate(
        {
            "observables": ["similarity", "last_clusters"],
            "repetitions": repetitions,
            "axes": {
                "field.beta": {"from": 0.5, "to": 5.0, "count": count},
                "measure.tokens": [4, 6],
            },
            "base": {"measure": {"tokens": 4}, "flow": {"horizon": 2.0, "frames": 3}},
            **more,
        }
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a sweep but its page, and the log and manifest, which say when and by whom."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.name not in ("log.jsonl", "manifest.json", "report.html")
        if "figures" not in path.relative_to(folder).parts
    }
