"""Recurrent language models: what came before the transformer, behind the same interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor, nn

from metastable.core import checks
from metastable.models.own.language import LanguageModel, seeded

Cell = Literal["rnn", "lstm", "gru"]
_CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


@dataclass(frozen=True)
class RecurrentConfig:
    """`cell` is "rnn" (tanh), "lstm" or "gru"; `width` is that of embeddings and hidden state."""

    vocabulary: int
    cell: Cell = "lstm"
    width: int = 64
    layers: int = 1
    dropout: float = 0.0  # between layers

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "layers"):
            checks.integer(name, getattr(self, name), 1)
        if self.cell not in get_args(Cell):
            raise ValueError(f"cell must be one of {', '.join(_CELLS)}; got {self.cell!r}.")
        if not 0.0 <= checks.real("dropout", self.dropout) < 1.0:
            raise ValueError(f"dropout must lie in [0, 1); got {self.dropout}.")
        if self.dropout and self.layers == 1:
            raise ValueError("dropout acts between layers: set it to 0, or layers above 1.")


class Recurrent(nn.Module, LanguageModel):
    """One state carried from place to place, h_t = f(x_t, h_{t−1}), and read at each.

    rnn: h_t = tanh(W x_t + U h_{t−1} + b). lstm (Hochreiter and Schmidhuber, 1997) and gru (Cho et
    al., arXiv:1406.1078) let gates decide what is kept. ∂h_T/∂x_1 is a product of T − 1 Jacobians;
    for the rnn it vanishes exponentially when ‖diag(1 − h²) U‖ < 1 (Bengio, Simard and Frasconi,
    1994). The lstm's forget gates start open, at bias 1: PyTorch's halve the memory at each place
    (Gers et al., 2000; Jozefowicz et al., 2015).

    >>> import torch
    >>> model = Recurrent(RecurrentConfig(vocabulary=5, cell="gru", width=8))
    >>> model.log_probs(torch.tensor([[0, 1, 2, 3]])).shape
    torch.Size([1, 3])
    """

    def __init__(self, config: RecurrentConfig, seed: int = 0):
        super().__init__()
        self.config, self.vocabulary, self.width = config, config.vocabulary, config.width
        d, kind = config.width, _CELLS[config.cell]
        with seeded(seed):
            self.table = nn.Embedding(config.vocabulary, d)
            self.cells = kind(d, d, config.layers, batch_first=True, dropout=config.dropout)
            self.unembed = nn.Linear(d, config.vocabulary)
        if config.cell == "lstm":
            for k in range(config.layers):
                nn.init.ones_(getattr(self.cells, f"bias_ih_l{k}")[d : 2 * d])

    def embed(self, ids: Tensor) -> Tensor:
        return self.table(ids)

    def forward_embeddings(self, embeddings: Tensor) -> Tensor:
        states, _ = self.cells(embeddings)  # (rows, n, d)
        return self.unembed(states).log_softmax(-1)
