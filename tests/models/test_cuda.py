"""Models on a GPU, where there is one: the same states, and the model given left where it was."""

import numpy as np
import pytest
import torch

from metastable.models.ablate import ScaledBeta
from metastable.models.capture import attention_maps, capture
from metastable.models.folder import load
from metastable.models.inspection import inspect

from .made import IDS, config_of, save_tiny
from .test_refusals import refused

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")


@pytest.mark.parametrize("kind", ["gpt2", "llama", "albert", "t5"])
def test_states_are_those_of_the_cpu(kind, tmp_path):
    place = save_tiny(kind, tmp_path)
    here = capture(place, IDS, sphere=False, final_norm=True, dtype="float64")
    there = capture(place, IDS, sphere=False, final_norm=True, dtype="float64", device="cuda")
    assert there.statistics["device"] == "cuda:0"
    # transformers takes norms and softmax in float32, whatever the rest is in.
    assert np.allclose(here.points, there.points, atol=1e-6)
    network = load(place, device="cuda")
    rows = capture(network, [IDS, IDS[::-1], IDS[:4]], ablate=[ScaledBeta(2.0)])
    streamed = capture(network, IDS, ablate=[ScaledBeta(2.0)], stream=lambda depth, x: x)
    assert np.allclose(rows[0].points, np.stack(streamed.results), atol=1e-4)
    maps, _ = attention_maps(network, IDS)
    assert np.allclose(maps.sum(-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
def test_a_model_on_the_gpu_stays_there_as_it_is(dtype):
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config_of("llama")).to("cuda", torch.bfloat16)
    before = {name: (t.data_ptr(), t.clone()) for name, t in model.state_dict().items()}
    run = capture(model, IDS, dtype=dtype)
    assert run.statistics["device"] == "cuda:0"
    assert run.statistics["dtype"] == (dtype or "bfloat16")
    assert capture(model, IDS, device="cpu", dtype=dtype).statistics["device"] == "cpu"
    for name, tensor in model.state_dict().items():
        assert tensor.data_ptr() == before[name][0] and torch.equal(tensor, before[name][1])
    assert next(model.parameters()).dtype == torch.bfloat16


def test_a_model_on_the_gpu_is_inspected(tmp_path):
    network = load(save_tiny("llama", tmp_path), device="cuda", dtype="bfloat16")
    found = inspect(network, [IDS, IDS[::-1]])
    assert found.run.statistics["device"] == "cuda:0" and found.control is not None


def test_a_model_larger_than_the_gpu_is_refused(tmp_path, monkeypatch):
    place = save_tiny("gpt2", tmp_path)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 2000))
    refused(lambda: load(place, device="cuda"), "free memory of the cuda:0; .* 1000.0 B are free")
    refused(lambda: load(place, device="cuda:9"), r"torch sees here \(cpu, cuda:0\); got 'cuda:9'")
