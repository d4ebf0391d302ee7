"""Names of the part that needs PyTorch, and who may import it."""

import ast
import sys
from pathlib import Path

import pytest

import metastable
from metastable import models

SOURCE = Path(metastable.__file__).parent


def test_every_public_name_exists():
    for name in models.__all__:
        assert getattr(models, name) is not None


def test_pytorch_is_imported_by_models_and_audit_alone():
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).parts[0] in ("models", "audit"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = [name for name in names if name != "safetensors"]  # arrays, without PyTorch
            assert not {"torch", "safetensors"} & {name.split(".")[0] for name in names}, file


def test_without_pytorch_one_line_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("metastable.models.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(vars(models), "Greedy", raising=False)
    said = r"metastable.models.Greedy needs torch: install the extra \[models\], as README says."
    with pytest.raises(ModuleNotFoundError, match=said):
        _ = models.Greedy
