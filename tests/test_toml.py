"""TOML in and out: a round trip of every tree, refusals of one line, digests that stay."""

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastable import kinds
from metastable.audit.spec import AuditConfig
from metastable.core.toml import read_toml, to_toml
from metastable.flows.spec import Experiment
from metastable.learn.spec import Classification
from metastable.sweep.spec import Sweep

LOADERS = {
    "run": lambda path: Experiment.load(path, {}),
    "sweep": Sweep.load,
    "learn": lambda path: kinds.load_spec(path, kind=None),
    "audit": AuditConfig.load,
}

scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text()
trees = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)


def same(one, other):
    """Equal in value and type; NaN equals NaN, and −0.0 is not 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or one.hex() == other.hex()
    return one == other


def ordered(node):
    """TOML puts the tables of a table after its values; order is compared elsewhere."""
    if isinstance(node, dict):
        return {key: ordered(node[key]) for key in sorted(node)}
    return [ordered(child) for child in node] if isinstance(node, list) else node


@given(st.dictionaries(st.text(), trees))
def test_every_tree_is_read_as_it_was_written(tree):
    assert same(ordered(tomllib.loads(to_toml(tree))), ordered(tree))


def test_a_matrix_is_written_row_by_row():
    written = to_toml({"value": [[1.0, -2.5e-30], [float("inf"), 3]]})
    assert "[1.0, -2.5e-30],\n" in written and "[inf, 3],\n" in written


def test_what_toml_has_no_word_for_is_refused():
    heads = {"kind": "multi_head", "heads": [{}, {}], "outputs": [None, 1.0]}
    spec = Experiment.model_validate({"field": heads})
    with pytest.raises(ValueError, match="must hold what TOML can write"):
        spec.to_toml()


def refusal(load, path):
    with pytest.raises(ValueError) as caught:
        load(path)
    assert type(caught.value) is ValueError  # not one of pydantic's, which has many lines
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


DEEP = {
    "brackets": "a = " + "[" * 5000 + "]" * 5000,
    "tables": "a = " + "{a = " * 5000 + "1" + "}" * 5000,
    "dots": ".".join(["a"] * 3000) + " = 1",
    "header": "[" + ".".join(["a"] * 3000) + "]",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_what_is_nested_too_deeply_is_refused_in_one_line(load, text, tmp_path):
    (tmp_path / "deep.toml").write_text(text)
    assert "deep.toml goes deeper" in refusal(load, tmp_path / "deep.toml")


def test_what_is_nested_within_the_limit_is_read(tmp_path):
    (tmp_path / "spec.toml").write_text("a = " + "[" * 31 + "]" * 31)
    assert list(read_toml(tmp_path / "spec.toml")) == ["a"]
    (tmp_path / "spec.toml").write_text("a = " + "[" * 32 + "]" * 32)
    refusal(read_toml, tmp_path / "spec.toml")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    file = tmp_path / "spec.toml"
    file.write_bytes(b"\xef\xbb\xbf[measure]\r\ntokens = 5\r\n")
    assert Experiment.load(file, {}).measure.tokens == 5


HUGE = "1" + "0" * 400
LARGE = {
    "tokens": ("run", f"measure.tokens = {HUGE}"),
    "dim": ("run", f"measure.dim = {HUGE}"),
    "seed": ("run", f"flow.seed = {HUGE}"),
    "frames": ("run", f"flow.frames = {HUGE}"),
    "draw": ("run", f'field.value = {{ draw = "gaussian", seed = {HUGE} }}'),
    "steps": ("run", f'flow.stepper = {{ kind = "adaptive", max_steps = {HUGE} }}'),
    "beta": ("run", f"field.beta = {HUGE}"),
    "digits": ("run", "measure.tokens = 1" + "0" * 5000),
    "lesson": ("learn", f'kind = "classification"\ntraining.steps = {HUGE}'),
    "axis": ("sweep", f'observables = ["clusters"]\naxes.field.beta = [1, {HUGE}]'),
    "range": (
        "sweep",
        'observables = ["clusters"]\naxes.field.beta = { from = 1, to = 2, count = 10000000000 }',
    ),
    "unknown": ("run", f"measure.many = {HUGE}"),
}


@pytest.mark.parametrize("case", LARGE, ids=LARGE)
def test_numbers_that_nothing_can_hold_are_refused_in_one_line(case, tmp_path):
    command, text = LARGE[case]
    (tmp_path / "large.toml").write_text(text)
    message = refusal(LOADERS[command], tmp_path / "large.toml")
    assert "boolean" not in message


def integers(node):
    """Every schema of an integer inside a JSON schema."""
    if isinstance(node, dict):
        if node.get("type") == "integer":
            yield node
        for child in node.values():
            yield from integers(child)
    elif isinstance(node, list):
        for child in node:
            yield from integers(child)


NUMBERED = [kind for kind in kinds.KINDS if kind != "reproduction"]


@pytest.mark.parametrize("model", [Experiment, Sweep, *map(kinds.spec_class, NUMBERED)])
def test_every_integer_of_a_spec_fits_64_bits(model):
    found = list(integers(model.model_json_schema()))
    assert found
    for schema in found:
        assert schema["maximum"] < 2**63 and schema["minimum"] >= -(2**63)


def test_digests_are_those_of_folders_made_before():
    """A digest tells a stored folder from another: no change of the writer may alter it."""
    first = "f536237dbb0d15d81955f04e9b951f1bf1720d1abca2548a926ac122e2f090db"
    assert Experiment().digest == first
    second = "ee1a71eca33b8d2c033908cf4503468fbe49f7979f25b95ae7ac12798eb88256"
    assert Classification(kind="classification").digest == second


def test_a_spec_written_and_read_has_the_same_digest(tmp_path):
    spec = Experiment.model_validate(
        {
            "name": 'a "name"\nof two lines',
            "measure": {"kind": "caps", "tokens_per_cap": 2, "centres": [[1, 0]], "radius": 0.1},
            "field": [
                {
                    "kind": "multi_head",
                    "heads": [{"beta": 1e-300}, {"value": {"draw": "gaussian"}}],
                },
                {"kind": "noise", "kappa": 3.0},
            ],
            "flow": {"stepper": {"kind": "merging"}, "horizon": "end"},
        }
    )
    (tmp_path / "spec.toml").write_text(spec.to_toml(), encoding="utf-8")
    again = Experiment.load(tmp_path / "spec.toml", {})
    assert again == spec and again.digest == spec.digest


def test_axes_keep_their_order(tmp_path):
    """A range is a table and a list is not: a writer that sorts them would turn a store's axes."""
    file = tmp_path / "sweep.toml"
    file.write_text(
        'observables = ["clusters"]\n[axes]\n'
        "field.beta = { from = 1.0, to = 2.0, count = 3 }\nmeasure.tokens = [3, 4]\n"
    )
    sweep = Sweep.load(file)
    file.write_text(sweep.to_toml())
    assert list(Sweep.load(file).axes) == list(sweep.axes) == ["field.beta", "measure.tokens"]


def test_a_sweep_may_go_over_kinds_of_fields(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(
        """
        observables = ["clusters"]
        [axes]
        field.beta = [1.0, 2.0]
        field.kind = ["self_attention", "l2_attention"]
        measure.kind = ["uniform"]
        flow.stepper.kind = ["adaptive"]
        """
    )
    sweep = Sweep.load(file)
    keys = ["field.beta", "field.kind", "measure.kind", "flow.stepper.kind"]
    assert list(sweep.axes) == keys
    file.write_text(sweep.to_toml())
    assert Sweep.load(file) == sweep
    file.write_text('observables = ["clusters"]\naxes.field.value = { draw = "gaussian" }')
    assert "axes.field.value.draw must be a valid list" in refusal(Sweep.load, file)
