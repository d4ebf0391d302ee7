"""The flat index of closed forms is that of the modules."""

import inspect
from importlib import import_module
from pathlib import Path

import metastable as ms


def test_every_public_name_of_every_module_is_in_the_index():
    folder = Path(ms.theory.__file__).parent
    for file in folder.glob("[!_]*.py"):
        module = import_module(f"metastable.theory.{file.stem}")
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                continue
            assert getattr(ms.theory, name) is value, name
            assert name in dir(ms.theory) and name in ms.theory.__all__
    assert ms.theory.growth_rates(9.0, 2, 3).shape == (3,)


def test_no_name_has_two_meanings():
    assert len(ms.theory.__all__) == len(set(ms.theory.__all__))


def test_arguments_come_in_one_order():
    """β, dimension, tokens, after what is asked about (a time, an angle) where there is such."""
    order = ["beta", "dim", "tokens"]
    for name in ms.theory.__all__:
        function = getattr(ms.theory, name)
        if inspect.isfunction(function):
            shared = [p for p in inspect.signature(function).parameters if p in order]
            assert shared == sorted(shared, key=order.index), name
