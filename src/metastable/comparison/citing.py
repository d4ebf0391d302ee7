"""Which claims of `compare` cite a paper, read from the code of the claims without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

__all__ = ["claims_citing"]

ROWS = {"judge", "decide", "sampled", "not_applicable"}


def claims_citing(key: str) -> list[str]:
    """Claims whose source names a key of the bibliography; … stands for what a run fills in.

    >>> claims_citing("karagodin2024clustering")[0]
    'all tokens converge to x_1(0)'
    """
    texts = [
        file.read_text(encoding="utf-8") for file in sorted(Path(__file__).parent.glob("*.py"))
    ]
    cited = [pair for text in texts if key in text for pair in _claims(text)]
    return list(dict.fromkeys(claim for claim, source in cited if key in source))


@cache
def _claims(module: str) -> tuple[tuple[str, str], ...]:
    """Each claim of a module, with every source its function names."""
    body = ast.parse(module).body
    named = {name: text for node in body for name, text in _assigned(node)}
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    return tuple(pair for function in functions for pair in _of_function(function, named))


def _of_function(function: ast.FunctionDef, named: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Claims and sources of one function: what it assigns to these names, or gives to a row."""
    claims, sources = [], []
    for node in ast.walk(function):
        for name, text in _assigned(node):
            if name in ("claim", "source"):
                (claims if name == "claim" else sources).append(text)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ROWS:
            claims += [_words(each) for each in node.args[:1] if _words(each)]
            sources += [_words(each) for each in node.args[1:2] if _words(each)]
        if isinstance(node, ast.Name) and node.id.isupper() and node.id in named:
            sources.append(named[node.id])
    yield from ((claim, " ".join(sources)) for claim in claims)


def _assigned(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names and the texts they are given, one by one or as a tuple; `+=` counts too."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, _words(node.value)
    if not isinstance(node, ast.Assign):
        return
    target = node.targets[0]
    pairs = [(target, node.value)]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        pairs = list(zip(target.elts, node.value.elts, strict=False))
    for name, value in pairs:
        if isinstance(name, ast.Name) and _words(value):
            yield name.id, _words(value)


def _words(node: ast.expr) -> str:
    """The text of an expression, … for what is known at run time only; nothing for no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(each) or "…" for each in node.values)
    return ""
