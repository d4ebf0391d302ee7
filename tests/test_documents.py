"""What the documents show works: the specs of docs/spec.md and examples/spec.toml."""

import re
from pathlib import Path

import pytest

from metastable import spec
from metastable.flows.build import build_start

ROOT = Path(__file__).parents[1]
SPEC = (ROOT / "docs" / "spec.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```", SPEC, re.M | re.S)


def test_the_example_spec_builds_what_it_says():
    experiment = spec.load_experiment(ROOT / "examples" / "spec.toml", {})
    measure, field = build_start(experiment)
    assert (measure.count, measure.dim, experiment.flow.frames) == (200, 3, 51)
    assert repr(field).count("SelfAttention") == 2 and "Noise" in repr(field)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_documented_spec_builds(block, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(block)
    build_start(spec.load_experiment(path, {}))


def test_every_kind_and_key_is_documented():
    modules = (spec.experiment, spec.fields, spec.flow, spec.measures, spec.values)
    named = {m for module in modules for m in vars(module).values() if isinstance(m, type)}
    models = [m for m in named if issubclass(m, spec.values.Model)]
    assert len(BLOCKS) >= 7 and len(models) > 30
    for model in models:
        for key, info in model.model_fields.items():
            name = info.annotation.__args__[0] if key == "kind" else key
            written = f"`{name}`" in SPEC or f"`[{name}]`" in SPEC or f"`[flow.{name}]`" in SPEC
            assert written, f"{model.__name__}.{key}"
