"""Configs with odd values: refused in one line, or ready to run; never a traceback or a wait."""

import copy
import tomllib

import pytest

from metastable.audit import audit as carried
from metastable.audit import case as dealt
from metastable.audit.audit import run_audit
from metastable.audit.case import fit, prepare
from metastable.audit.spec import AuditConfig, Source
from tests.audit.small import CONFIG, write_config, write_texts
from tests.audit.test_cli_audit import ask

NUMBERS = [
    "-1", "0", "1000000", str(2**63), "1" + "0" * 400, "1e308", "5e-324", "nan", "-inf", "0.5",
    "true",
]  # fmt: skip
OTHERS = ["''", '"\\u0000"', f"'{'y' * 5000}'", "'meta'", "[]", "[1, 1]", "{a = 1}", "1979-05-27"]
GENERATORS = """
[[generators]]
kind = "shared"
budgets = [1]
steps = 3
rate = 0.1
prefix = 2
[[generators]]
kind = "discrete"
budgets = [2]
tries = 4
items = 3
[[generators]]
kind = "amortised"
budgets = [2]
network = "basic"
"""


class Ready(Exception):
    """Everything was accepted, and nothing has been written yet."""


def leaves(tree, path=()):
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        nested = isinstance(value, dict)
        yield from leaves(value, (*path, key)) if nested else [(*path, key)]


class Verbatim(str):
    """TOML as it stands."""


def written(value):
    if isinstance(value, Verbatim):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {written(x)}" for key, x in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return repr(value)


@pytest.mark.parametrize("odd", NUMBERS + OTHERS, ids=lambda odd: odd[:12].replace("\\", ""))
def test_every_key_takes_or_refuses_odd_values(tmp_path, monkeypatch, odd):
    def ready(*_):
        raise Ready

    monkeypatch.setattr(carried, "claimed", ready)
    write_texts(tmp_path / "texts")
    base = tomllib.loads(CONFIG.format(overlap=0.75, steps=2) + GENERATORS)
    base |= {"name": "x", "level": 0.01, "batch": 40}
    base["corpus"] |= {"field": "text", "names": "*"}
    base["split"] |= {"lead": 0, "per_document": 1}
    base["model"] |= {"family": "transformer", "tokens": "characters", "device": "cpu"}
    keys = list(leaves({k: v for k, v in base.items() if k != "generators"}))
    keys += [("generators", k, key) for k, one in enumerate(base["generators"]) for key in one]
    assert len(keys) > 30
    for *parents, last in keys:
        tree = node = copy.deepcopy(base)
        for key in parents:
            node = node[key]
        node[last] = Verbatim(odd)
        text = "\n".join(f"{key} = {written(value)}" for key, value in tree.items())
        (tmp_path / "config.toml").write_text(text)
        with pytest.raises((ValueError, Ready)) as refused:
            run_audit(AuditConfig.load(tmp_path / "config.toml"), tmp_path / "run")
        line = str(refused.value)
        assert "\n" not in line and len(line) < 400, (parents, last)
    assert not (tmp_path / "run").exists()


def test_a_model_folder_is_looked_at_before_the_corpus(tmp_path):
    (tmp_path / "empty").mkdir()
    config = AuditConfig.model_validate(
        {
            "corpus": {"path": str(tmp_path / "nothing")},
            "model": {"family": "folder", "path": str(tmp_path / "empty")},
        }
    )
    with pytest.raises(ValueError, match=r"model folder must hold config\.json; none in"):
        prepare(config)
    (tmp_path / "empty" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"must hold \*\.safetensors or pytorch_model\*\.bin"):
        prepare(config)


def test_generators_that_could_not_be_told_apart_are_refused():
    twice = [{"kind": "soft", "budgets": [1]}, {"kind": "soft", "budgets": [2, 1], "steps": 7}]
    with pytest.raises(ValueError, match="soft 1 stands there 2 times"):
        AuditConfig(corpus=Source(kind="sotu")).altered(generators=twice)


def test_batches_beyond_the_memory_are_refused_before_training(tmp_path):
    config = AuditConfig.load(write_config(tmp_path)).altered(
        generators=[{"kind": "discrete", "budgets": [100_000], "tries": 1_000_000}]
    )
    with pytest.raises(ValueError, match=r"discrete 100000 needs about .*: lower rows, batch"):
        run_audit(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_rate_that_blows_up_is_told_in_one_line(tmp_path, monkeypatch):
    """Training's own error is no ValueError."""

    def blown(*_, **__):
        raise FloatingPointError("the loss left the range of floating point: lower the rate")

    monkeypatch.setattr(dealt, "train_target", blown)
    case = prepare(AuditConfig.load(write_config(tmp_path)))
    with pytest.raises(ValueError, match=r"model\.rate is too high: .* lower the rate"):
        fit(case, case.split.training, 0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("sweep", "--seeds", 10**30), "--seeds must be an integer from 0 to 10000"),
        (("sweep", "--seeds", -1), "--seeds must be an integer from 0 to 10000"),
        (("sweep", "--seeds", 10**4, "--size", "basic,large"), "at most 10000 audits; got 20000"),
        (("sweep", "--overlap", "nan"), "split.overlap must be a finite number"),
        (("sweep", "--size", "huge"), "model.size must be 'basic', 'complex' or 'large'"),
    ],
)
def test_odd_options_are_refused_in_one_line(tmp_path, words, complaint):
    command, *options = words
    refused = ask(command, write_config(tmp_path), "--out", tmp_path / "out", *options)
    assert isinstance(refused.exception, ValueError)
    assert complaint in str(refused.exception) and "\n" not in str(refused.exception)
    assert not (tmp_path / "out").exists()
