"""Recurrent targets go through the same audit as transformers."""

import pytest

from metastable.audit.audit import run_audit
from metastable.audit.spec import AuditConfig
from tests.audit.small import write_config


@pytest.mark.parametrize("family", ["rnn", "lstm", "gru"])
def test_a_recurrent_model_that_read_members_is_found_and_one_that_did_not_is_not(tmp_path, family):
    """12 of 16 protected documents in training, then none of them."""
    config = AuditConfig.load(write_config(tmp_path, steps=150))
    kinds = [{"kind": "prefix", "budgets": [6]}, {"kind": "soft", "budgets": [1], "steps": 20}]
    for overlap, words in ((0.75, ("trained on",)), (0.0, ("no evidence", "cannot tell"))):
        own = config.altered(model__family=family, split__overlap=overlap, generators=kinds)
        found = run_audit(own, tmp_path / f"overlap {overlap}").facts
        assert found["trained_on"]["finding"] in words, found["trained_on"]["reason"]
        if not overlap:
            assert found["reproduces"]["finding"] in words
        asked = {question["name"] for question in found["reproduces"]["questions"]}
        assert asked == {"prefix 6", "soft 1"}
