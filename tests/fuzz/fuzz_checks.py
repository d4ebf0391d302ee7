"""What every case must keep to: exit codes, one line, one JSON object, no stray files."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.fuzz.fuzz_bases import numbers
from tests.fuzz.fuzz_case import Case

__all__ = ["judge"]

LONGEST = 600  # characters of a refusal


def judge(case: Case, result: dict[str, Any]) -> tuple[str, list[str]]:
    """The outcome in a word or two, and what is wrong with it (nothing: an empty list)."""
    if "ended" in result:  # by the watchdog, or by itself
        return result["ended"], [result["ended"]]
    if "unprepared" in result:
        return "unprepared", [result["unprepared"]]
    code, stdout, stderr = result["code"], result["stdout"], result["stderr"]
    wrong = []
    if "Traceback (most recent call last)" in stdout + stderr:
        if case.debug:
            return "traceback asked for", []
        last = [line for line in stderr.splitlines() if line and not line.startswith(" ")]
        return "traceback", [f"traceback: {last[-1][:200] if last else stdout[-200:]}"]
    if code not in (0, 1, 2) and not (code == 130 and result.get("interrupted")):
        wrong.append(f"exit code {code}: {stderr[:200]}")
    if code == 2 and not case.debug:
        lines = stderr.rstrip("\n").split("\n")
        if len(lines) != 1 or not lines[0]:
            wrong.append(f"a refusal of {len(lines) if stderr else 0} lines: {stderr[:400]!r}")
        if len(stderr) > LONGEST:
            wrong.append(f"a refusal of {len(stderr)} characters: {stderr[:200]!r}")
    if case.as_json:
        wrong += _json(code, stdout)
    wrong += _files(case, code, result)
    if case.damage and not wrong:
        return _damage(case, result)
    outcome = {0: "done", 1: "failed", 2: "refused", 130: "ended by Ctrl-C"}.get(code, "odd code")
    return (_word(wrong[0]) if wrong else outcome), wrong


def _word(wrong: str) -> str:
    return wrong.partition(":")[0]


def _json(code: int, stdout: str) -> list[str]:
    if not stdout and code != 0:
        return []
    if code == 2:
        return [f"stdout after a refusal: {stdout[:200]!r}"]

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        tree = json.loads(stdout, parse_constant=refuse)
    except ValueError as error:
        return [f"stdout is not one JSON object: {error}; {stdout[:200]!r}"]
    return [] if isinstance(tree, dict) else [f"stdout is no JSON object: {stdout[:200]!r}"]


def _files(case: Case, code: int, result: dict[str, Any]) -> list[str]:
    """Files that appeared, changed or went where they must not."""
    if not result["changes"]:
        return []
    here = result["here"]
    out = None if case.out is None else os.path.realpath(os.path.join(here, case.out))
    existed = out in result["existed"]
    stray = []
    for path in result["changes"]:
        inside = out is not None and (path == out or path.startswith(out + os.sep))
        above = out is not None and out.startswith(path + os.sep)
        if code == 2 and existed and inside:
            continue  # a folder that was there: what was left of a run that goes on
        if code == 2 or not (inside or above):
            stray.append(os.path.relpath(path, here))
    if not stray:
        return []
    what = "files after a refusal" if code == 2 else "files outside --out"
    return [f"{what}: {', '.join(stray[:5])}"]


def _damage(case: Case, result: dict[str, Any]) -> tuple[str, list[str]]:
    """A damaged folder is refused, or answers as the undamaged one does."""
    code, expected = result["code"], result["expected"]
    base, action = case.damage[:2]
    if code == 2 or (code == 1 and not result["stdout"] and result["stderr"].count("\n") == 1):
        return "refused", []
    if action == "report":
        return "page", []
    if "store" in expected:
        same = result.get("store") == expected["store"]
    else:
        got, wanted = numbers(json.loads(result["stdout"])), numbers(json.loads(expected["stdout"]))
        same = got == wanted
        if action == "status":  # cells that are known to be lost are honestly told
            same = same or got.get("done", 0) < wanted["done"]
    if same:
        return "same numbers", []
    return "other numbers", [f"other numbers: {base}, {action}, exit {code}, {result['note']}"]
