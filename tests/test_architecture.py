"""The data path is the architecture: imports go along it, never back."""

import ast
import re
from pathlib import Path

import metastable as ms

SOURCE = Path(ms.__file__).parent

# Each part may import from itself and from what stands before it on the path.
PATH = [
    "core checks numerics sphere harmonics maxima spec toml complaints",
    "measures",
    "fields",
    "flows",
    "observe",
    "learn",
]
RANK = {name: rank for rank, names in enumerate(PATH) for name in names.split()}


def imports(file: Path):
    """Parts of the package that a module imports, wherever in the file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("metastable"):
            parts = node.module.split(".")[1:]
            yield from parts[:1] or [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("metastable."):
                    yield alias.name.split(".")[1]


def part_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_follow_the_path():
    for file in SOURCE.rglob("*.py"):
        part = part_of(file)
        if part not in RANK:
            continue
        for imported in imports(file):
            if imported in RANK:
                assert RANK[imported] <= RANK[part], f"{file.name} ({part}) imports {imported}"
            else:
                assert imported in ("__version__",), f"{file.name} ({part}) imports {imported}"


def test_theory_is_an_independent_witness():
    allowed = {"theory", "sphere", "harmonics", "maxima", "checks", "numerics"}
    for file in (SOURCE / "theory").rglob("*.py"):
        assert set(imports(file)) <= allowed, file.name


def test_core_needs_only_the_numerical_packages():
    """So that it runs on a machine that has jax, diffrax, equinox, numpy and scipy alone."""
    core = {"__future__", "jax", "diffrax", "equinox", "jaxtyping", "numpy", "scipy", "metastable"}
    heavy = {"build.py", "progress.py", "trajectory.py"}  # import theirs inside a function, or spec
    for part in ("measures", "fields", "flows", "observe", "theory"):
        for file in (SOURCE / part).rglob("*.py"):
            if file.name in heavy:
                continue
            for node in ast.parse(file.read_text()).body:
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) else []
                for name in names:
                    top = name.split(".")[0]
                    assert top in core or _standard(top), f"{file.name} imports {name}"


def test_torch_stays_with_the_models():
    for file in SOURCE.rglob("*.py"):
        if part_of(file) in ("models", "audit"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"torch", "transformers"} & {n.split(".")[0] for n in names}, file.name


def _standard(name: str) -> bool:
    import sys

    return name in sys.stdlib_module_names


def test_public_names_exist_and_are_listed_once():
    text = (SOURCE / "__init__.py").read_text()
    typed = re.findall(r"import (\w+) as \1", text)
    assert sorted(typed) == sorted(set(ms.__all__) - {"__version__"})
    for name in ms.__all__:
        assert getattr(ms, name) is not None


def test_every_module_stands_in_the_architecture_as_it_describes_itself():
    """`python docs/architecture.py` brings the tables up to date."""
    import runpy

    made = runpy.run_path(str(SOURCE.parents[1] / "docs" / "architecture.py"))
    text = made["FILE"].read_text(encoding="utf-8")
    assert text == made["rewritten"](text)
