"""Training: the loss is the likelihood, resuming changes no bit, Ctrl-C loses nothing."""

import os
import signal

import numpy as np
import pytest
import torch
from torch.nn import functional

from metastable.models.own.recurrent import Recurrent, RecurrentConfig
from metastable.models.own.tasks import Batch, Copy, Recall, Reverse, accuracy, pose
from metastable.models.own.training import Recipe, train_model
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder, TransformerConfig

TASK = Reverse(symbols=4, length=3)
RECIPE = Recipe(steps=12, rows=8, rate=3e-3, warmup=4, seed=5)
CONFIG = TransformerConfig(TASK.vocabulary, 16, 4, 2, 32, dropout=0.2)
BUILDERS = {
    "encoder-decoder": lambda: EncoderDecoder(CONFIG),
    "decoder": lambda: DecoderOnly(CONFIG),
    "gru": lambda: Recurrent(RecurrentConfig(TASK.vocabulary, "gru", 16)),
}


class CutAt:
    """The task, with a Ctrl-C in the middle of one step."""

    def __init__(self, task, call):
        self.task, self.call, self.calls = task, call, 0

    def __call__(self, random, rows):
        self.calls += 1
        if self.calls == self.call:
            os.kill(os.getpid(), signal.SIGINT)
        return self.task(random, rows)


def same(a, b):
    return all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_resumed_training_ends_in_the_same_bits(build, tmp_path):
    handler = signal.getsignal(signal.SIGINT)
    whole, cut, fresh = build(), build(), build()
    straight = train_model(whole, TASK, RECIPE)
    path = tmp_path / "state.npz"
    # The first call makes the checkpoint's fingerprint; call 6 is step 5.
    with pytest.raises(KeyboardInterrupt):
        train_model(cut, CutAt(TASK, 6), RECIPE, checkpoint=path, every=100)
    with np.load(path, allow_pickle=False) as kept:
        assert 5 in [int(leaf) for leaf in kept.values() if leaf.dtype.kind == "i"]
    assert not same(whole, cut)
    resumed = train_model(fresh, TASK, RECIPE, checkpoint=path)
    assert same(whole, fresh)
    assert np.array_equal(straight.losses, resumed.losses)
    again = build()
    assert train_model(again, CutAt(TASK, 3), RECIPE, checkpoint=path).losses.size == RECIPE.steps
    assert same(whole, again)  # finished: read back, and no step was taken
    assert signal.getsignal(signal.SIGINT) is handler


def test_seed_decides():
    a, b, c = (BUILDERS["decoder"]() for _ in range(3))
    train_model(a, TASK, RECIPE)
    torch.manual_seed(99)  # the state of the world does not
    train_model(b, TASK, RECIPE)
    train_model(c, TASK, Recipe(steps=12, rows=8, rate=3e-3, warmup=4, seed=6))
    assert same(a, b) and not same(a, c)


def test_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    train_model(BUILDERS["gru"](), TASK, RECIPE, checkpoint=path)
    others = [
        (BUILDERS["gru"](), TASK, Recipe(steps=13, rows=8)),
        (BUILDERS["gru"](), Copy(symbols=4, length=3), RECIPE),
        (BUILDERS["decoder"](), TASK, RECIPE),
        (Recurrent(RecurrentConfig(TASK.vocabulary, "gru", 16), seed=1), TASK, RECIPE),
    ]
    for model, task, recipe in others:
        with pytest.raises(ValueError, match="checkpoint must be a whole one of this training"):
            train_model(model, task, recipe, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="checkpoint must be a whole one of this training"):
        train_model(BUILDERS["gru"](), TASK, RECIPE, checkpoint=path)


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_loss_is_the_cross_entropy_of_the_answer(build):
    """Against torch's cross-entropy of the read-out at the places of the answer alone."""
    model = build().eval()
    batch = TASK(np.random.default_rng([RECIPE.seed, 1]), RECIPE.rows)
    language, ids, first = pose(model, batch)
    scores = language.forward_embeddings(language.embed(ids[:, :-1]))[:, -TASK.length :]
    want = functional.cross_entropy(scores.flatten(0, 1), batch.target[:, 1:].flatten())
    found = -language.log_probs(ids)[:, first - 1 :].mean()
    assert float(abs(want - found).detach()) < 1e-6
    if not isinstance(model, Recurrent):
        return
    assert train_model(model, TASK, RECIPE).losses[0] == pytest.approx(found.item(), rel=1e-6)


def test_first_step_is_adams():
    """Adam's first step is rate_1 · sign(gradient), for gradients far above its ε = 1e−8."""
    model = BUILDERS["gru"]()
    before = model.unembed.bias.detach().clone()
    batch = TASK(np.random.default_rng([RECIPE.seed, 1]), RECIPE.rows)
    language, ids, first = pose(model, batch)
    loss = -language.log_probs(ids)[:, first - 1 :].mean()
    (gradient,) = torch.autograd.grad(loss, model.unembed.bias)
    train_model(model, TASK, Recipe(steps=1, rows=8, rate=3e-3, warmup=4, seed=5))
    moved = model.unembed.bias.detach() - before
    assert torch.allclose(moved, -3e-3 / 4 * gradient.sign(), rtol=1e-4)


def test_rate_rises_then_falls_as_in_the_paper():
    """With the paper's d = 512 and 4000 steps of warm-up the peak is (512 · 4000)^(−1/2)."""
    recipe = Recipe(rate=(512 * 4000) ** -0.5, warmup=4000)
    for step in (1, 400, 4000, 100_000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert recipe.rate_at(step) == pytest.approx(paper, rel=1e-12)


def test_tiny_transformer_learns_to_reverse():
    task = Reverse(symbols=4, length=3)
    model = EncoderDecoder(TransformerConfig(task.vocabulary, 32, 4, 1, 64))
    assert accuracy(model, task) < 0.6
    fit = train_model(model, task, Recipe(steps=200, rows=64, rate=5e-3, warmup=20))
    assert fit.losses[0] > 1.0 > 0.1 > fit.loss
    assert accuracy(model, task) > 0.98


def test_plain_texts_need_no_source():
    """A language model of one repeated text learns it by heart: the loss falls towards 0."""
    text = torch.tensor([[0, 3, 1, 2, 2, 1]])
    model = DecoderOnly(TransformerConfig(4, 16, 4, 1, 32))

    def task(random, rows):
        return Batch(text.expand(rows, -1))

    assert train_model(model, task, Recipe(steps=80, rows=2, rate=1e-2, warmup=5)).loss < 0.05
    assert torch.equal(model.generate(text[:, :1], 5), text[:, 1:])
    with pytest.raises(ValueError, match="an encoder needs a source"):
        train_model(EncoderDecoder(TransformerConfig(4, 16, 4, 1, 32)), task, RECIPE)


def test_tasks_say_what_they_promise():
    random = np.random.default_rng(0)
    for task, answer in ((Copy(5, 6), lambda s: s), (Reverse(5, 6), lambda s: s.flip(1))):
        batch = task(random, 50)
        assert batch.source.shape == (50, 6)
        assert torch.equal(batch.target[:, 1:], answer(batch.source))
        assert (batch.target[:, 0] == 0).all() and set(batch.source.unique().tolist()) == set(
            range(1, 6)
        )
    batch = Recall(9, symbols=3)(random, 200)
    assert batch.source.shape == (200, 9) and batch.target.shape == (200, 2)
    assert torch.equal(batch.source[:, 0], batch.target[:, 1])
    assert set(batch.source[:, 0].tolist()) == {1, 2, 3}
    assert set(batch.source[:, 1:].unique().tolist()) == {4, 5, 6}


def test_refusals():
    model = BUILDERS["gru"]()
    with torch.no_grad():
        model.unembed.bias[0] = torch.nan
    with pytest.raises(FloatingPointError, match="at step 1: lower the rate"):
        train_model(model, TASK, RECIPE)
    for name in ("steps", "rows", "warmup"):
        with pytest.raises(ValueError, match=f"{name} must be an integer >= 1"):
            Recipe(**{name: 0})
    with pytest.raises(ValueError, match="rate must be > 0"):
        Recipe(rate=0.0)
    with pytest.raises(ValueError, match="lag must be an integer >= 1"):
        Recall(0)
    with pytest.raises(ValueError, match="checkpoint must lie in a folder that exists"):
        train_model(BUILDERS["gru"](), TASK, RECIPE, checkpoint="/nowhere/state.npz")
