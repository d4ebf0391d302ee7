"""Threads of the libraries for linear algebra: fewer inside, as before afterwards."""

import subprocess
import sys

import pytest

from metastable.core import blas
from metastable.core.blas import one_thread


def test_threads_come_back_after_an_error():
    """In a new process: here the number may be one from the start."""
    code = """
from metastable.core import blas
found = {owner: blas._threads(owner) for owner in ("numpy", "scipy")}
for threads in filter(None, found.values()):
    threads.set(2)
try:
    with blas.one_thread("scipy"):
        print(*[threads and threads.get() for threads in found.values()])
        raise KeyError
except KeyError:
    print(*[threads and threads.get() for threads in found.values()])
first, second = blas.one_thread("scipy"), blas.one_thread("scipy")
first.__enter__()
second.__enter__()
first.__exit__(None, None, None)  # two runs in two threads, of which the first ends first
print(*[threads and threads.get() for threads in found.values()])
second.__exit__(None, None, None)
print(*[threads and threads.get() for threads in found.values()])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    inside, after, one_left, none_left = done.stdout.splitlines()
    if "None" in inside:
        pytest.skip("NumPy or SciPy has another library here")
    assert (inside, after) == ("2 1", "2 2")
    assert (one_left, none_left) == ("2 1", "2 2")


def test_another_library_is_left_alone(monkeypatch, tmp_path):
    blas._threads.cache_clear()
    package = type("package", (), {"__file__": str(tmp_path / "scipy" / "__init__.py")})
    monkeypatch.setattr(blas, "import_module", lambda name: package)
    (tmp_path / "scipy.libs").mkdir()
    (tmp_path / "scipy.libs" / "libscipy_openblas-0.so").write_text("not a library")
    with one_thread("scipy"):
        assert blas._threads("scipy") is None
    blas._threads.cache_clear()
