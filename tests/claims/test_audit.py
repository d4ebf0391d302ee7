"""The audit at the size of the slides, on a processor."""

from pathlib import Path

import pytest

from metastable.audit.audit import run_audit
from metastable.audit.case import fit, prepare
from metastable.audit.collect import collect
from metastable.audit.generators.soft import Soft
from metastable.audit.spec import AuditConfig

pytestmark = pytest.mark.claim
CONFIGS = Path(__file__).parents[2] / "experiments" / "audit"


def rate(rows, group):
    found = [r["exact"] for r in rows if r["generator"] == "soft" and r["group"] == group]
    return sum(found) / len(found)


def test_one_vector_elicits_what_was_learned(tmp_path):
    """350 k parameters, 80 + 80 passages: members exact by one vector >= 0.9, controls never."""
    case = prepare(AuditConfig.load(CONFIGS / "four_panels.toml").altered(split__overlap=0.5))
    fitted = fit(case, case.split.training, 0)
    assert 320e3 < fitted.parameters < 380e3
    rows = collect(fitted.target, case.split.items, [Soft(1, 60)], batch=160)
    assert rate(rows, "member") >= 0.9
    assert rate(rows, "control") == 0.0


def test_a_control_of_another_century_stops_the_verdict(tmp_path):
    config = AuditConfig.load(CONFIGS / "mismatched.toml").altered(model__steps=20)
    told = run_audit(config, tmp_path / "run").to_dict()
    for finding in (told["trained_on"], told["reproduces"]):
        assert finding["finding"] == "cannot tell" and "matched control" in finding["reason"]
    assert told["blind_auc"] > 0.8


def test_readable_prompts_call_up_members(tmp_path):
    """At least one member by a readable prompt shorter than itself, typed in again."""
    config = AuditConfig.load(CONFIGS / "readable.toml")
    case = prepare(config)
    target = fit(case, case.split.training, 0).target
    from metastable.audit.generators.discrete import Discrete

    rows = collect(target, case.split.group("member", "control"), [Discrete(8, 20, 32, items=6)])
    found = [r for r in rows if r["generator"] == "discrete" and r["exact"]]
    assert any(r["group"] == "member" for r in found)
    assert not any(r["group"] == "control" for r in found)
    for row in found:
        assert row["prompt"].isprintable() and len(row["prompt"]) < len(row["target"])
        written = target.model.generate(target.ahead([row["prompt"]]), len(row["target"]))
        assert target.alphabet.decode(written[0].tolist()) == row["target"]
