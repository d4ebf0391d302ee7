"""What a language model is to the rest of the package: four verbs, two of them to be written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from metastable.core import checks
from metastable.models.own.decoding import Decoding, Greedy


class LanguageModel(ABC):
    """A law of sequences of ids, one id after the other.

    p(x_1 … x_n | x_1) = Π_{t>1} p(x_t | x_1 … x_{t−1}).

    A family writes `embed` and `forward_embeddings`; scores and texts follow from the two. Vectors
    that are no id's embedding are welcome: a soft prompt is any (rows, k, width) tensor, put before
    embedded ids or handed to `generate`, and gradients flow back to it. Dropout follows PyTorch's
    `train()` and `eval()`.
    """

    vocabulary: int
    width: int

    @abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """(rows, n) ids → (rows, n, width) vectors, before positions are added."""

    @abstractmethod
    def forward_embeddings(self, embeddings: Tensor) -> Tensor:
        """(rows, n, width) → (rows, n, vocabulary): log-probabilities of the id after each place.

        Place t sees places up to t alone.
        """

    def log_probs(self, ids: Tensor) -> Tensor:
        """log p(x_t | x_1 … x_{t−1}) for t = 2 … n; (rows, n) → (rows, n − 1)."""
        ids = check_ids("ids", ids, self.vocabulary, least=2)
        return pick(self.forward_embeddings(self.embed(ids[:, :-1])), ids[:, 1:])

    @torch.no_grad()
    def generate(
        self, prompt: Tensor, length: int, decoding: Decoding | None = None, stop: int | None = None
    ) -> Tensor:
        """Ids that follow the prompt: (rows, length), without the prompt.

        `prompt` holds ids (rows, n) or vectors (rows, n, width), n ≥ 1; `decoding` is `Greedy()`
        unless told. After a first `stop` a row holds nothing but `stop`.
        """
        checks.integer("length", length, 1)
        if not prompt.is_floating_point():
            prompt = self.embed(check_ids("prompt", prompt, self.vocabulary, least=1))
        elif prompt.ndim != 3 or 0 in prompt.shape or prompt.shape[2] != self.width:
            raise ValueError(
                f"prompt must be ids (rows, n) or vectors (rows, n, {self.width}); "
                f"got shape {tuple(prompt.shape)}."
            )

        def following(ids: Tensor) -> Tensor:
            # Beams of one prompt stand next to each other.
            before = prompt.repeat_interleave(len(ids) // len(prompt), 0)
            embeddings = torch.cat([before, self.embed(ids)], 1) if ids.shape[1] else before
            return self.forward_embeddings(embeddings)[:, -1]

        start = torch.empty(len(prompt), 0, dtype=torch.long, device=prompt.device)
        return (decoding or Greedy()).extend(following, start, length, stop)


def pick(log_probs: Tensor, ids: Tensor) -> Tensor:
    """The entries of (rows, n, vocabulary) at the given ids: (rows, n)."""
    return log_probs.gather(-1, ids[..., None])[..., 0]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """PyTorch's random numbers from `seed`, as they were before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(checks.seed(seed))
        yield


def check_ids(name: str, ids: Tensor, vocabulary: int, least: int) -> Tensor:
    if ids.is_floating_point() or ids.ndim != 2 or ids.shape[0] < 1 or ids.shape[1] < least:
        raise ValueError(
            f"{name} must be integers of shape (rows, n), n >= {least}; "
            f"got {ids.dtype} of shape {tuple(ids.shape)}."
        )
    if int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        raise ValueError(
            f"{name} must lie in 0 … {vocabulary - 1}; "
            f"got {int(ids.min())} … {int(ids.max())}: use the model's own vocabulary."
        )
    return ids.long()
