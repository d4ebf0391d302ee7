"""Rows: what they hold, and that a collection cut short ends in the same numbers."""

import pytest

from metastable.audit import scores
from metastable.audit.collect import COLUMNS, collect, read_rows, write_rows
from metastable.audit.corpus import images, pixels
from metastable.audit.generators.generator import Prefix
from metastable.audit.generators.soft import Soft
from metastable.audit.split import Item
from metastable.audit.target import Target, build_model, make_alphabet


class Interrupted(Soft):
    """Stops at its second batch."""

    def elicit(self, target, texts, seed=0, **kwargs):
        if seed:
            raise KeyboardInterrupt
        return super().elicit(target, texts, seed, **kwargs)


def test_rows_tell_what_the_model_says(memorised):
    split, fitted = memorised
    target, item = fitted.target, split.items[0]
    row = collect(target, [item], [])[0]
    ids, _ = target.rows([item.text])
    logp = target.log_probs(target.model.embed(target.opening(1)), ids)[0].double().numpy()
    assert row["nll"] == pytest.approx(scores.nll(logp), abs=1e-5)
    assert row["min_k"] == pytest.approx(scores.min_k(logp), abs=1e-5)
    assert (row["generator"], row["budget"], row["group"]) == ("likelihood", 0, "member")
    own = collect(target, [item], [], reference=target)[0]
    assert own["reference_ratio"] == pytest.approx(1.0)


def test_an_interrupted_collection_resumes_to_the_same_numbers(memorised, tmp_path):
    split, fitted = memorised
    told = {"batch": 5, "seed": 0}
    whole = collect(fitted.target, split.items, [Prefix(4), Soft(1, 8)], **told)
    with pytest.raises(KeyboardInterrupt, match="eliciting: 37 of 48 rows are done"):
        collect(fitted.target, split.items, [Prefix(4), Interrupted(1, 8)], folder=tmp_path, **told)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert "soft-1-0.json" in kept and "soft-1-5.json" not in kept
    again = collect(fitted.target, split.items, [Prefix(4), Soft(1, 8)], folder=tmp_path, **told)
    assert again == whole


def test_the_table_gives_back_the_rows(memorised, tmp_path):
    split, fitted = memorised
    rows = collect(fitted.target, split.items[:3], [Prefix(4)])
    path = write_rows(rows, tmp_path / "items.csv")
    assert read_rows(path) == [{"prompt": "", "output": ""} | row for row in rows]
    assert path.read_text().splitlines()[0].split(",") == COLUMNS


def test_errors_of_images_are_squared():
    import numpy as np

    corpus = images(np.random.default_rng(0).integers(0, 5, (4, 3, 3)), 5)
    alphabet = make_alphabet("characters", ["01234"])
    target = Target(build_model("gru", "basic", alphabet.size, 0), alphabet).freeze()
    items = [Item(d.name, d.name, "control", d.text) for d in corpus.documents]
    for row in collect(target, items, [Prefix(3)], levels=5):
        if row["generator"] == "prefix":
            out = row["output"].ljust(6, "0")
            a, b = ([int(c) / 4 for c in text] for text in (row["target"], out))
            wanted = sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / 6
            assert row["squared_error"] == pytest.approx(wanted)
            assert pixels(row["target"], 5).tolist() == a


def test_nothing_to_collect_is_refused(memorised):
    with pytest.raises(ValueError, match="items must not be empty"):
        collect(memorised[1].target, [], [])
