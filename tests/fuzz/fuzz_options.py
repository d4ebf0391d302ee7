"""Cases of odd options: every option of every command, asked of the command line itself."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise
from typing import Any

from tests.fuzz.fuzz_case import Case, mentioned
from tests.fuzz.fuzz_specs import WORK
from tests.fuzz.fuzz_values import ODD, as_option, is_huge

__all__ = ["commands", "option_case"]

# Arguments and options with which a command succeeds soon; a command without an entry gets its
# required ones. `--port 0` and a server that is never started: see fuzz_worker.
FILES: dict[str, bytes | None] = {
    "spec.toml": b"[measure]\ntokens = 4\n[flow]\nhorizon = 0.5\nframes = 3\n",
    "sweep.toml": b'observables = ["similarity"]\n[axes]\nfield.beta = [1.0]\n'
    b"[base.measure]\ntokens = 4\n[base.flow]\nhorizon = 0.5\nframes = 3\n",
    "learn.toml": b'kind = "nothing"\n',
    "words.txt": b"a b a\n",
    "taken/other.txt": b"not yours\n",
}
TAKEN = ["--out", "taken"]
BASES: dict[tuple[str, ...], list[list[str]]] = {
    ("run",): [
        ["--tokens", "4", "--horizon", "0.5", "--set", "flow.frames=3"],
        ["--tokens", "4", "--horizon", "0.5", *TAKEN],
        ["spec.toml", *TAKEN],
        ["spec.toml"],
    ],
    ("predict",): [["--dim", "3", "--beta", "2", "--tokens", "10"], ["--dim", "2", "--beta", "4"]],
    ("compare",): [["taken"]],
    ("report",): [["taken"]],
    ("sweep",): [["sweep.toml", *TAKEN], ["sweep.toml", *TAKEN], ["status", "taken"]],
    ("reproduce",): [["--list"], ["nothing"], ["activation_signs", "--out", "out"]],
    ("inspect",): [
        ["model", "--text", "words.txt", "--no-control", "--tokens", "3"],
        ["model", "--text", "words.txt", *TAKEN],
        ["model", "--text", "missing.txt"],
    ],
    ("learn",): [["learn.toml"]],
    ("explore",): [["--port", "0", "--no-browser"]],
    ("doctor",): [["--help"]],
    ("gaussian", "verify"): [["--dim", "3", "--samples", "10", *TAKEN]],
    ("gaussian", "iterate"): [["--list"], ["nothing"], ["negative", *TAKEN]],
    ("gaussian", "spectra"): [
        ["wigner", "--size", "40"],
        ["--list"],
        ["--matrix", "words.txt"],
        ["wigner", *TAKEN],
    ],
    ("gaussian", "learn"): [
        ["beta", "--dim", "2", "--samples", "8", "--steps", "2"],
        ["matrices", "--dim", "2", "--keys", "2", "--samples", "8", "--epochs", "1"],
        ["nothing"],
    ],
    ("audit", "run"): [["audit.toml", *TAKEN]],
    ("audit", "plan"): [["audit.toml", *TAKEN]],
    ("audit", "sweep"): [["audit.toml", *TAKEN]],
    ("audit", "canaries"): [
        ["words.txt", "--pairs", "2", "--words", "3", "--times", "1", "--out", "out"],
        ["words.txt", *TAKEN],
    ],
    ("audit", "reveal"): [["taken", "--model", "model", "--out", "out"], ["kept", *TAKEN]],
    ("audit", "report"): [["taken"]],
    ("audit", "verify"): [["taken"]],
    ("audit", "serve"): [["taken"]],
    ("audit", "validate"): [["--help"]],  # with any other folder it would train for hours
}
DEAR = ["0.5", "--steps", "--epochs", "activation_signs", "model"]  # of a base that computes
KEYS = ["field.beta", "measure.tokens", "flow.frames", "flow.horizon", "field", "x.y.z", "name",
        "field.0.beta", "flow.stepper.kind", "measure.kind", "=", "", "."]  # fmt: skip


@cache
def commands() -> dict[tuple[str, ...], Any]:
    """All commands by their path, as click knows them."""
    import typer

    from metastable.cli import app

    def walk(command: Any, path: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return {path: command}
        return {k: v for name, sub in inner.items() for k, v in walk(sub, (*path, name)).items()}

    return walk(typer.main.get_command(app), ())


def option_case(chance: random.Random, *, cheap: bool = False) -> Case:
    """One command with its options spoiled in one to three ways; `cheap`: those soon refused."""
    known = commands()
    paths = sorted(known)
    path = chance.choices(paths, [2 + len(known[p].params) for p in paths])[0]
    parameters = known[path].params
    options = [p for p in parameters if p.param_type_name == "option" and not p.is_flag]
    flags = [
        p for p in parameters
        if p.param_type_name == "option" and p.is_flag and p.name not in ("debug", "as_json")
    ]  # fmt: skip
    bases = BASES[path] if path in BASES else [_required(parameters)]
    bases = [one for one in bases if not cheap or not set(DEAR) & set(one)] or [["nothing"]]
    args = list(chance.choice(bases))
    touched: list[tuple[str, str]] = []
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        _spoil(args, options, flags, chance, touched)
    head = list(path)
    if chance.random() < 0.5:
        head.append("--json")
    if chance.random() < 0.02:
        args.append("--debug")
    if chance.random() < 0.02:
        args.append(chance.choice(["-h", "--help"]))
    if chance.random() < 0.02:
        head = chance.choice([[], ["nothing"], head[:1], ["--version"], ["--json", *head], [""]])
    argv = tuple(head + args)
    return Case(
        kind="options",
        name=" ".join(part[:30] for part in argv)[:200],
        argv=argv,
        files=mentioned({**FILES, "audit.toml": _audit()}, argv),
        uses={"model": "model"} if path == ("inspect",) and "model" in args else {},
        out=_out(args, path),
        long=path[0] == "gaussian" or any(name in WORK and is_huge(v) for name, v in touched),
    )


def _required(parameters: list[Any]) -> list[str]:
    needed = [p for p in parameters if p.required]
    made: list[str] = []
    for p in needed:
        made += ["taken"] if p.param_type_name == "argument" else [p.opts[0], "1"]
    return made


def _spoil(
    args: list[str],
    options: list[Any],
    flags: list[Any],
    chance: random.Random,
    touched: list[tuple[str, str]],
) -> None:
    """Change the list of arguments in place; `touched` gets the option and its new value."""
    value = as_option(chance.choice(ODD))
    what = chance.choices(
        ["odd", "replace", "missing", "unknown", "flag", "extra", "drop", "equals", "double"],
        [50, 8, 4, 4, 12, 4, 6, 6, 6],
    )[0]
    if what in ("odd", "equals", "double") and options:
        option = chance.choice(options)
        word = max(option.opts, key=len)
        if word == "--set":
            value = f"{chance.choice(KEYS)}={value}"
        if word == "--out" and value.startswith("../"):
            value = "out"
        _without(args, word)
        args += [f"{word}={value}"] if what == "equals" else [word, value]
        if what == "double":
            args += [word, as_option(chance.choice(ODD))]
        touched += [(str(option.name), one) for one in args[-3:]]
    elif what == "missing" and options:
        args.append(max(chance.choice(options).opts, key=len))
    elif what == "unknown":
        args.append(chance.choice(["--nothing", "-x", "--betas=3", "--", "---", "-", "--=", "-\n"]))
    elif what == "flag" and flags:
        flag = chance.choice(flags)
        args.append(chance.choice([*flag.opts, *flag.secondary_opts]))
        if chance.random() < 0.1:
            args[-1] += "=1"
    elif what == "drop" and args:
        del args[chance.randrange(len(args))]
    elif what == "replace" and args:
        at = chance.randrange(len(args))
        before = args[at - 1].lstrip("-").replace("-", "_") if at else ""
        args[at] = value
        touched.append((before, value))
    else:
        args.append(value)


def _without(args: list[str], word: str) -> None:
    """Take an option and its value away, so that the odd one is heard."""
    if word in args:
        at = args.index(word)
        del args[at : at + 2]


def _out(args: list[str], path: tuple[str, ...]) -> str | None:
    """The last folder that --out names; `reproduce` has one of its own."""
    named = [b for a, b in pairwise(args) if a == "--out"]
    named += [a.removeprefix("--out=") for a in args if a.startswith("--out=")]
    if named:
        return named[-1]
    return "reproduced" if path == ("reproduce",) else None


@cache
def _audit() -> bytes:
    from tests.fuzz.fuzz_tiny import tiny_specs
    from tests.fuzz.fuzz_values import toml_text

    tree = tiny_specs("audit")["readable"]
    return toml_text({**tree, "corpus": {"kind": "text", "path": "missing.txt"}}).encode()
