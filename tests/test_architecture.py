"""The data path is the architecture: imports go along it, never back."""

import ast
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import metastable as ms

SOURCE = Path(ms.__file__).parent

# Each package may import itself and what stands before it. Lazy imports, imports by string and
# modules named in strings count like any other.
PATH = (
    "core geometry measures fields flows observe comparison learn sweep models audit report "
    "reproduce register kinds explorer cli"
).split()
RANK = {name: rank for rank, name in enumerate(PATH)}
# Theory stands beside simulation: it hears core and geometry, and is heard from comparison on.
RANK["theory"] = RANK["observe"] + 0.5
THEORY = {"core", "geometry", "theory"}
# The only modules that may name what comes after them.
EXCEPTIONS = {"core/show.py", "__init__.py", "__init__.pyi", "__main__.py", "cli/__main__.py"}


def imports(source: str):
    """Packages of metastable that a module names: by statement, lazily, or in a string."""
    tree = ast.parse(source)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "metastable":
            parts = node.module.split(".")[1:]
            names = parts[:1] or [alias.name for alias in node.names]
            yield from (name for name in names if name != "__version__")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("metastable."):
                    yield alias.name.split(".")[1]
        elif isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            head = first.value if isinstance(first, ast.Constant) else ""
            if isinstance(head, str) and head.startswith("metastable."):
                yield head.split(".")[1] or "a package chosen by a string"
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts
        ):
            parts = node.value.replace(":", ".").split(".")
            if parts[0] == "metastable" and len(parts) > 1 and all(p.isidentifier() for p in parts):
                yield parts[1]


def broken_edges(part: str, source: str) -> list[str]:
    """What a module of package `part` names although it may not."""
    if part == "theory":
        return [name for name in imports(source) if name not in THEORY]
    allowed = {name for name, rank in RANK.items() if rank <= RANK[part]}
    return [name for name in imports(source) if name not in allowed]


def part_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_follow_the_path():
    for file in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*/__init__.pyi")]:
        if file.relative_to(SOURCE).as_posix() in EXCEPTIONS:
            continue
        broken = broken_edges(part_of(file), file.read_text(encoding="utf-8"))
        assert not broken, f"{file.relative_to(SOURCE)} names {', '.join(broken)}"


@pytest.mark.parametrize(("part", "later"), list(itertools.pairwise(PATH)))
def test_an_import_of_what_comes_later_is_noticed(part, later):
    """By statement, inside a function, and by string."""
    for source in (
        f"from metastable.{later}.x import y",
        f"import metastable.{later}",
        f"from metastable import {later}",
        f"def f():\n    from metastable.{later} import y",
        f"import_module('metastable.{later}.x')",
        f"TABLE = {{'a': 'metastable.{later}.x:Name'}}",
        f"import_module(f'metastable.{later}.{{name}}')",
        "import_module(f'metastable.{name}')",
    ):
        assert broken_edges(part, source), source
    assert not broken_edges(later, f"from metastable.{part} import y")


def test_theory_and_simulation_are_independent_witnesses():
    for simulated in ("measures", "fields", "flows", "observe"):
        assert broken_edges("theory", f"from metastable.{simulated} import x")
        assert broken_edges(simulated, "from metastable.theory import x")
    assert not broken_edges("comparison", "from metastable.theory import x")


def test_the_particle_side_needs_only_the_numerical_packages():
    """So that it runs on a machine that has jax, diffrax, equinox, numpy and scipy alone."""
    known = {"__future__", "jax", "diffrax", "equinox", "jaxtyping", "numpy", "scipy", "metastable"}
    for part in ("geometry", "measures", "fields", "flows", "observe", "theory"):
        for file in (SOURCE / part).rglob("*.py"):
            if file.name in ("spec.py", "build.py"):  # loaded only where a spec is read
                continue
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                for name in names:
                    top = name.split(".")[0]
                    fine = top in known or top in sys.stdlib_module_names
                    assert fine, f"{file.relative_to(SOURCE)} imports {name}"


def test_torch_stays_with_the_models():
    for file in SOURCE.rglob("*.py"):
        if part_of(file) in ("models", "audit"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"torch", "transformers"} & {n.split(".")[0] for n in names}, file.name


def test_no_private_name_crosses_a_package():
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if not module.startswith("metastable.") or module.split(".")[1] == part_of(file):
                continue
            private = [alias.name for alias in node.names if alias.name.startswith("_")]
            assert not private, f"{file.relative_to(SOURCE)} imports {private} from {module}"


def test_public_names_exist_and_are_listed_once():
    for package in (ms, ms.fields, ms.flows, ms.measures):
        text = (Path(package.__file__).with_suffix(".pyi")).read_text()
        typed = re.findall(r"^from metastable\..* import (\w+) as \1$", text, re.M)
        more = {"open"} if package is ms else set()  # it would hide Python's own in a star import
        assert sorted(typed) == sorted({*package.__all__, *more} - {"__version__"})
        for name in typed:
            assert getattr(package, name) is not None


def test_specs_are_read_without_jax():
    """So that the explorer's serving process stays small."""
    code = (
        "import sys; from metastable.flows.spec import Experiment; Experiment(); "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_diagram_of_imports_is_that_of_the_modules():
    """`python docs/architecture.py` brings it up to date."""
    import runpy

    made = runpy.run_path(str(SOURCE.parents[1] / "docs" / "architecture.py"))
    text = made["FILE"].read_text(encoding="utf-8")
    assert text == made["rewritten"](text)
