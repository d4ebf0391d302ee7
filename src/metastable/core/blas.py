"""The threads of the libraries for linear algebra that SciPy and NumPy bring along, on a CPU."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple

Owner = Literal["numpy", "scipy"]


_LOCK = threading.Lock()
_INSIDE: dict[str, list[int]] = {}  # how many are inside now, and the threads before the first


class Threads(NamedTuple):
    """How many threads a library has, and how that is changed."""

    get: Callable[[], int]
    set: Callable[[int], None]


@contextmanager
def one_thread(*owners: Owner) -> Iterator[None]:
    """Inside, the libraries of these packages leave the other cores to XLA.

    JAX takes LAPACK from SciPy. The OpenBLAS of SciPy has threads of its own, and so has that of
    NumPy: after each call they spin for 20 ms on the cores that XLA has its threads on, and small
    matrices wait for them longer than one core takes. That can cost half of a run's time. The last
    of several runs at once to leave brings the threads back. Does nothing where there is another
    library.

    >>> with one_thread("numpy", "scipy"):
    ...     pass
    """
    every = ((owner, _threads(owner)) for owner in owners)
    found = {owner: threads for owner, threads in every if threads is not None}
    with _LOCK:
        for owner, threads in found.items():
            inside = _INSIDE.setdefault(owner, [0, threads.get()])
            inside[0] += 1
            threads.set(1)
    try:
        yield
    finally:
        with _LOCK:
            for owner, threads in found.items():
                _INSIDE[owner][0] -= 1
                if not _INSIDE[owner][0]:
                    threads.set(_INSIDE.pop(owner)[1])


@cache
def _threads(owner: Owner) -> Threads | None:
    """Of the OpenBLAS that a wheel of this package has loaded."""
    folder = Path(str(import_module(owner).__file__)).parent.parent / f"{owner}.libs"
    for path in folder.glob("libscipy_openblas*"):
        for suffix in ("", "64_"):
            try:
                library = ctypes.CDLL(str(path))
                get = library[f"scipy_openblas_get_num_threads{suffix}"]
                put = library[f"scipy_openblas_set_num_threads{suffix}"]
            except (OSError, AttributeError):
                continue
            get.restype, put.argtypes, put.restype = ctypes.c_int, [ctypes.c_int], None
            return Threads(get, put)
    return None
