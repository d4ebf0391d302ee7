"""Public names that are imported on first use."""

import sys

import pytest


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose function `gather` lives in a module of the same name, beside `spread`."""
    folder = tmp_path / "lazily"
    folder.mkdir()
    (folder / "gather.py").write_text("def gather():\n    return 1\ndef spread():\n    return 2\n")
    (folder / "__init__.py").write_text(
        "from metastable.core.lazy import lazy\n"
        "__getattr__, __dir__, __all__ = lazy('lazily', {'gather': 'gather spread'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "lazily"]:
        del sys.modules[name]


def test_a_function_is_not_hidden_by_the_module_it_lives_in(package):
    from lazily import spread

    from lazily import gather  # isort: skip

    assert (gather(), spread()) == (1, 2)
