"""Specs of experiments: to TOML and back, and complaints about them."""

from __future__ import annotations

import importlib

import pytest

from metastable import kinds
from tests.learn.small_spec import SPEC, spec_file


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_every_kind_has_a_spec_and_a_function(kind):
    assert kinds.spec_class(kind).model_fields["kind"].default == kind
    stated = kinds.KINDS[kind]
    for place in filter(None, (stated.prepare, stated.finish, stated.page)):
        module, function = place.split(":")
        assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("kind", ["classification", "deep_limit", "equivariant", "gaussian_depth"])
def test_specs_go_to_toml_and_back(kind, tmp_path):
    spec = kinds.make({"kind": kind, "seed": 3})
    again = kinds.load_spec(spec_file(tmp_path, spec.to_toml()))
    assert again == spec and again.digest == spec.digest
    assert kinds.make({"kind": kind}).digest != spec.digest


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ('kind = "classification"', 'kind = "magic"'),
            "kind must be one of flow, ensemble, sweep",
        ),
        (("neurons = 4", "neurons = -4"), "network.neurons must be greater"),
        (("turns = 0.5", "turns = -1"), "data.turns must be greater"),
        (("layers = 4", "layers = 4\npieces = 3"), "layers must be a multiple of pieces"),
        (("batch = 20", "batches = 20"), "unknown key training.batches"),
    ],
)
def test_complaints_are_one_line(tmp_path, change, complaint):
    with pytest.raises(ValueError, match=complaint) as error:
        kinds.load_spec(spec_file(tmp_path, SPEC.replace(*change)))
    assert "\n" not in str(error.value)
