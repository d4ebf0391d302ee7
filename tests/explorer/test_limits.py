"""What a page may ask for."""

import pytest

from metastable.explorer.limits import Limits, Refused, read_experiment
from metastable.explorer.presets import CHOICES, presets

PLAIN = {"measure": {"tokens": 10, "dim": 2}, "field": {"beta": 2.0}}


def test_a_plain_spec_passes_and_names_may_be_left_out():
    experiment = read_experiment(PLAIN, Limits())
    assert experiment.measure.kind == "uniform" and experiment.field.kind == "self_attention"


@pytest.mark.parametrize(
    "spec, word",
    [
        ({"measure": {"tokens": 20_001}}, "measure.tokens must be at most 20000"),
        ({"measure": {"tokens": 10**15}}, "measure.tokens must be at most"),
        ({"measure": {"tokens": 10, "dim": 1000}}, "measure.dim must be at most 256"),
        ({"measure": {"tokens": 20_000, "dim": 128}}, "tokens² × dim × heads"),
        ({"measure": {"tokens": 20_000}, "flow": {"frames": 2000}}, "tokens × frames"),
        ({"flow": {"horizon": 1e9}}, "flow.horizon must be at most"),
        ({"flow": {"frames": 10**6}}, "flow.frames must be at most"),
        ({"field": {"kind": "multi_head", "heads": [{}] * 33}}, "number of heads"),
        ({"measure": {"kind": "tokens", "file": "/etc/passwd"}}, "measure.file cannot be used"),
        ({"measure": {"kind": "density_mode", "degree": 2, "amplitude": 0.1}}, "place tokens"),
        (
            {"measure": {"kind": "caps", "tokens_per_cap": 20_000, "centres": [[1, 0], [0, 1]],
                         "radius": 0.1}},
            "measure.tokens must be at most",
        ),
        ({"measure": {"tokens": 2**60}}, "below 2^53"),
        ({"field": {"beta": float("inf")}}, "finite"),
        ({"field": {"beta": -1}}, "field.beta"),
        ({"unknown": 1}, "unknown key"),
        ("spec", "must be an object"),
        (None, "must be an object"),
        ({"measure": [[[[[[[[[[[[[[1]]]]]]]]]]]]]]}, "nested"),
    ],
)  # fmt: skip
def test_too_much_is_refused_in_one_sentence(spec, word):
    with pytest.raises(Refused) as refused:
        read_experiment(spec, Limits())
    assert word in str(refused.value) and "\n" not in str(refused.value)


def test_presets_are_within_the_limits():
    names = [preset["name"] for preset in presets()]
    assert len(set(names)) == len(names) >= 15
    for preset in presets():
        assert preset["source"].startswith("arXiv:") and preset["note"]
        read_experiment(preset["spec"], Limits())


def test_choices_name_every_kind_of_the_spec():
    for kind in CHOICES["field"]:
        with pytest.raises(Refused) as refused:
            read_experiment({"field": {"kind": kind, "no such key": 1}}, Limits())
        assert "kind" not in str(refused.value)
