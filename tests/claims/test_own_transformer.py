"""What our own transformer can do, and what the nets before it could not."""

import math
import time

import pytest

from metastable.models import (
    Copy,
    DecoderOnly,
    EncoderDecoder,
    Recipe,
    Recurrent,
    RecurrentConfig,
    Reverse,
    TransformerConfig,
    accuracy,
    recall_curves,
    train_model,
)

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("task", [Copy(16, 10), Reverse(16, 10)], ids=["copy", "reverse"])
def test_copies_and_reverses(task):
    """Free greedy writing of ten symbols of sixteen, N = 6 and h = 8 as in the paper.

    Within two minutes on two cores, that is 240 seconds of processor time.
    """
    model = EncoderDecoder(TransformerConfig(task.vocabulary, 64, 8, 6, 128, norm_first=True))
    started = time.process_time()
    train_model(model, task, Recipe(steps=600, rows=64, rate=2e-3, warmup=100))
    spent = time.process_time() - started
    assert accuracy(model, task, rows=1000) >= 0.99
    assert spent < 240


def test_transformer_remembers_where_the_rnn_is_at_chance():
    """One of eight symbols; the binomial deviation of 1000 answers at chance is 0.0105."""
    lags, symbols, rows = (4, 16, 64), 8, 1000
    families = {
        "transformer": lambda v: DecoderOnly(TransformerConfig(v, 32, 4, 2, 64)),
        "rnn": lambda v: Recurrent(RecurrentConfig(v, "rnn", 64)),
    }
    recipe = Recipe(steps=300, rows=32, rate=1e-2, warmup=20)
    found = recall_curves(families, lags, recipe, symbols=symbols, rows=rows)
    chance, deviation = 1 / symbols, math.sqrt(7 / 64 / rows)
    assert (found["transformer"] >= 0.95).all()
    assert found["rnn"][0] >= 0.95  # it can learn the task, over a short distance
    assert abs(found["rnn"][-1] - chance) < 4 * deviation
