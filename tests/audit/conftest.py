"""One model that knows its texts by heart, trained once for all tests of a process."""

import pytest
import torch

from metastable.audit.alphabet import Characters
from metastable.audit.corpus import Corpus, read_texts
from metastable.audit.split import deal
from metastable.audit.target import train_target
from metastable.models.own.training import Recipe
from tests.audit.small import write_texts


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Two test processes on two cores: threads of PyTorch would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def memorised(tmp_path_factory):
    """(split, fitted): 6 members, 2 protected, 8 controls, windows of 16 after a lead of 6."""
    folder = write_texts(tmp_path_factory.mktemp("texts"), documents=32)
    corpus = Corpus.of(read_texts(str(folder)))
    split = deal(
        corpus, items=8, controls=8, background=8, length=16, lead=6, overlap=0.75, ngram=12
    )
    alphabet = Characters.of([d.text for d in corpus.documents])
    fitted = train_target(
        split.training,
        [item.text for item in split.group("control")],
        alphabet,
        size="basic",
        recipe=Recipe(steps=250, rows=24, rate=5e-3, warmup=30),
    )
    return split, fitted
