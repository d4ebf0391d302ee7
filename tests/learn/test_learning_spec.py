"""Specs of lessons: to TOML and back, and complaints about them."""

from __future__ import annotations

import pytest

from metastable.learn.build import _LESSONS
from metastable.learn.spec import KINDS, load_lesson
from tests.learn.small_lesson import SPEC, spec_file


def test_every_kind_has_a_spec_and_a_function():
    assert set(KINDS) == set(_LESSONS)


@pytest.mark.parametrize("kind", ["classification", "deep_limit", "equivariant"])
def test_specs_go_to_toml_and_back(kind, tmp_path):
    spec = KINDS[kind].model_validate({"kind": kind, "seed": 3})
    again = load_lesson(spec_file(tmp_path, spec.to_toml()))
    assert again == spec and again.digest == spec.digest
    assert KINDS[kind].model_validate({"kind": kind}).digest != spec.digest


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('kind = "classification"', 'kind = "magic"'), "kind must be one of classification"),
        (("neurons = 4", "neurons = -4"), "network.neurons must be greater"),
        (("turns = 0.5", "turns = -1"), "data.turns must be greater"),
        (("layers = 4", "layers = 4\npieces = 3"), "layers must be a multiple of pieces"),
        (("batch = 20", "batches = 20"), "unknown key training.batches"),
    ],
)
def test_complaints_are_one_line(tmp_path, change, complaint):
    with pytest.raises(ValueError, match=complaint) as error:
        load_lesson(spec_file(tmp_path, SPEC.replace(*change)))
    assert "\n" not in str(error.value)
