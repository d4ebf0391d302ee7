"""Three hundred seeded odd inputs: refused in one line or done, never a traceback or a stray file.

`make fuzz` runs ten thousand, dearer ones among them.
"""

import pickle

import pytest

from metastable import kinds
from metastable.audit.spec import AuditConfig
from metastable.flows.spec import Experiment
from metastable.reproduce.catalogue import catalogue
from metastable.sweep.spec import Sweep
from tests.fuzz.fuzz import cases, run_cases
from tests.fuzz.fuzz_case import Case, reproducer
from tests.fuzz.fuzz_checks import judge
from tests.fuzz.fuzz_options import BASES, commands
from tests.fuzz.fuzz_specs import ENTRIES
from tests.fuzz.fuzz_tiny import tiny_specs

COUNT = 300


def test_odd_input_is_refused_in_one_line_or_done(tmp_path):
    records = []
    chosen = list(cases(0, COUNT, cheap=True))
    run_cases(chosen, tmp_path, 1, records.append)
    assert len(records) == COUNT
    failed = [
        f"{record['wrong'][0]}\n{reproducer(chosen[record['case']], record['note'])[:2000]}"
        for record in records
        if record["wrong"]
    ]
    assert not failed, "\n\n".join(failed)


def test_a_case_is_always_the_same():
    first = [pickle.dumps(case) for case in cases(3, 40)]
    assert [pickle.dumps(case) for case in cases(3, 50)][:40] == first
    assert [pickle.dumps(case) for case in cases(4, 40)] != first


def test_every_command_has_options_to_begin_with():
    assert set(BASES) == set(commands())


@pytest.mark.parametrize(
    "kind, model", [("run", Experiment), ("sweep", Sweep), ("audit", AuditConfig)]
)
def test_specs_are_valid_before_they_are_spoiled(kind, model):
    for tree in tiny_specs(kind).values():
        if kind == "run":
            tree = {"measure": {"kind": "uniform"}, "field": {"kind": "self_attention"}} | tree
            for section, default in (("measure", "uniform"), ("field", "self_attention")):
                if isinstance(tree[section], dict):
                    tree[section] = {"kind": default} | tree[section]
        model.model_validate(tree)


def test_experiments_are_valid_before_they_are_spoiled():
    for tree in tiny_specs("learn").values():
        kinds.make(tree)


def test_entries_have_the_settings_that_are_set():
    entries = catalogue()
    assert all(set(keys) <= set(entries[name].settings) for name, keys in ENTRIES.items())


RESULT = {"code": 2, "stdout": "", "stderr": "metastable: no.\n", "changes": [], "existed": []}
RESULT |= {"here": "/made/up/here", "note": ""}
CASE = Case("options", "a run", ("run", "--json", "--out", "out"), out="out")


@pytest.mark.parametrize(
    "change, outcome",
    [
        ({}, "refused"),
        ({"code": 0, "stdout": "{}\n"}, "done"),
        ({"code": 0, "stdout": "{}\n", "changes": ["/made/up/here/out/a"]}, "done"),
        ({"code": 0, "stdout": "{}\n", "changes": ["/made/up/here/b"]}, "files outside --out"),
        ({"changes": ["/made/up/here/out"]}, "files after a refusal"),
        ({"code": 0, "stdout": "[]"}, "stdout is no JSON object"),
        ({"code": 0, "stdout": '{"a": NaN}'}, "stdout is not one JSON object"),
        ({"stderr": "a\nb\n"}, "a refusal of 2 lines"),
        ({"stderr": ""}, "a refusal of 0 lines"),
        ({"stderr": "x" * 601}, "a refusal of 601 characters"),
        ({"code": 130}, "exit code 130"),
        ({"code": 1, "stderr": "Traceback (most recent call last):\nKeyError: 1\n"}, "traceback"),
        ({"ended": "hang"}, "hang"),
    ],
)
def test_what_is_wrong_is_called_wrong(change, outcome):
    got, wrong = judge(CASE, RESULT | change)
    assert got.startswith(outcome)
    assert bool(wrong) == (outcome not in ("refused", "done"))
