"""M, the model under audit: trained here on a split, or read from a folder.

Training maximises log p of the windows, one character after the other: it lowers the divergence
from the empirical law of the training set, which is reported.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from metastable.audit.alphabet import Alphabet, Bytes, Characters, Tokens
from metastable.audit.split import Window
from metastable.core.folder import MANIFEST
from metastable.models.folder import WEIGHTS
from metastable.models.own.language import LanguageModel, pick
from metastable.models.own.recurrent import Recurrent, RecurrentConfig
from metastable.models.own.saving import FORMAT
from metastable.models.own.tasks import Batch
from metastable.models.own.training import Fit, Recipe, train_model
from metastable.models.own.transformer import DecoderOnly, TransformerConfig
from metastable.models.pretrained import sha256

Family = Literal["transformer", "rnn", "lstm", "gru"]

TOKENISERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model")

# Width and layers; parameters with an alphabet of 90: 64 k, 353 k, 1.2 M.
SIZES = {"basic": (48, 2), "complex": (96, 3), "large": (128, 6)}
# Recurrent peers of about the same parameters.
RECURRENT_WIDTHS = {"rnn": (140, 370, 730), "gru": (96, 232, 440), "lstm": (84, 200, 380)}


@dataclass(frozen=True)
class Target:
    """A language model with its alphabet, on a device; all that a generator may ask of it."""

    model: LanguageModel
    alphabet: Alphabet
    device: str = "cpu"

    def rows(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids (n, L) and lengths (n,) of texts, on the device."""
        ids, lengths = self.alphabet.rows(texts)
        return ids.to(self.device), lengths.to(self.device)

    def opening(self, rows: int) -> Tensor:
        return torch.full((rows, 1), self.alphabet.opening, device=self.device)

    def log_laws(self, prompt: Tensor, ids: Tensor) -> Tensor:
        """log p(· | prompt, x_1 … x_{t−1}) for t = 1 … L: (n, L, V); prompt (n, k, width)."""
        before = torch.cat([prompt, self.model.embed(ids[:, :-1])], 1)
        return self.model.forward_embeddings(before)[:, prompt.shape[1] - 1 :]

    def log_probs(self, prompt: Tensor, ids: Tensor) -> Tensor:
        """log p(x_t | prompt, x_1 … x_{t−1}): (n, L)."""
        return pick(self.log_laws(prompt, ids), ids)

    def ahead(self, texts: Sequence[str]) -> Tensor:
        """Vectors (n, k, width) of the opening and texts of one length, as a prompt."""
        ids = torch.cat([self.opening(len(texts)), self.rows(texts)[0]], 1)
        return self.model.embed(ids)

    def freeze(self) -> Target:
        if isinstance(self.model, torch.nn.Module):
            self.model.eval().requires_grad_(False)
        return self


@dataclass(frozen=True)
class Fitted:
    """A trained target, how training went, and how near it came to its training set.

    `divergence` is KL(p_D ‖ p_M) = Σ p_D log (p_D/p_M) in nats, with p_D uniform on the N training
    windows: −log N − mean log p_M. Equations 1 to 5 of the slides (where the likelihood (4) lacks
    its logarithm): it falls to 0 when M gives each window its 1/N, which is to know them by heart.
    `held_out` is the same mean, −log p_M of a window, for controls.
    """

    target: Target
    fit: Fit
    parameters: int
    divergence: float
    held_out: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "parameters": self.parameters,
            "steps": len(self.fit.losses),
            "loss": self.fit.loss,
            "seconds": self.fit.seconds,
            "divergence": self.divergence,
            "held_out_nll": self.held_out,
        }


@dataclass(frozen=True)
class Reading:
    """A task: windows of a training set, drawn at random, each after the opening id.

    Every other one begins where the window does, the rest somewhere in what stands before it.
    """

    ids: Tensor  # (N, lead + L + 1), on the device: opening, what stands before, the window
    leads: np.ndarray  # (N,): tokens before the window

    def __call__(self, random: np.random.Generator, rows: int) -> Batch:
        chosen = random.integers(0, len(self.ids), rows)
        leads = self.leads[chosen]
        late = np.where(random.random(rows) < 0.5, leads, random.integers(0, leads + 1))
        ids = self.ids[torch.from_numpy(chosen).to(self.ids.device)]
        if not leads.any():
            return Batch(ids)
        # What is skipped at the front is filled up with the opening at the end.
        places = torch.from_numpy(late)[:, None] + torch.arange(1, ids.shape[1])
        beyond = places >= ids.shape[1]
        places = torch.where(beyond, 0, places).to(ids.device)
        return Batch(torch.cat([ids[:, :1], ids.gather(1, places)], 1))


def build_model(family: Family, size: str, vocabulary: int, seed: int) -> Any:
    """An untrained model of a family and size: "basic", "complex" or "large"."""
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}; got {size!r}.")
    if family == "transformer":
        width, layers = SIZES[size]
        return DecoderOnly(
            TransformerConfig(vocabulary, width, 4, layers, 4 * width, norm_first=True), seed
        )
    width = RECURRENT_WIDTHS[family][list(SIZES).index(size)]
    return Recurrent(RecurrentConfig(vocabulary, family, width), seed)


def train_target(
    training: Sequence[Window],
    held_out: Sequence[str],
    alphabet: Alphabet,
    *,
    family: Family = "transformer",
    size: str = "complex",
    recipe: Recipe | None = None,
    device: str = "cpu",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> Fitted:
    """Train a model, from the recipe's seed, on windows (before, text); measure `held_out`."""
    recipe = recipe or Recipe()
    model = build_model(family, size, alphabet.size, recipe.seed).to(torch_device(device))
    target = Target(model, alphabet, device)
    texts = [text for _, text in training]
    ids, _ = target.rows([before + text for before, text in training])
    leads = np.array([len(alphabet.encode(before)) for before, _ in training])
    task = Reading(torch.cat([target.opening(len(ids)), ids], 1), leads)
    fit = train_model(model, task, recipe, checkpoint=checkpoint, progress=progress)
    target.freeze()
    count = sum(w.numel() for w in model.parameters())
    divergence = window_nll(target, texts) - math.log(len(set(texts)))
    return Fitted(target, fit, count, divergence, window_nll(target, held_out))


@torch.no_grad()
def window_nll(target: Target, texts: Sequence[str]) -> float:
    """Mean of −log p over windows, each with the end that a shorter one was trained to have."""
    total = 0.0
    for part in target.rows(texts)[0].split(256):
        opening = target.model.embed(target.opening(len(part)))
        total += float(target.log_probs(opening, part).double().sum())
    return -total / len(texts)


def open_model_folder(folder: str | Path, device: str = "cpu") -> Target:
    """A causal language model of a Hugging Face folder, as a target."""
    from metastable.models.folder import load_causal

    model, tokenizer = load_causal(folder)
    alphabet = Tokens(tokenizer, model.vocabulary)
    return Target(model.to(torch_device(device)), alphabet, device).freeze()


def refuse_folder(folder: str | Path) -> None:
    """Refuse what cannot be a model folder, by its files and config.json; weights stay closed."""
    folder = Path(folder)
    if folder.is_file() or (not any(folder.glob("config.json")) and any(folder.glob("*.gguf"))):
        raise ValueError(
            f"a model must be a folder of transformers with its tokeniser; {folder} is or holds a "
            "single file: audits read no GGUF, whose weights are rounded; ask for the folder that "
            "it was made from, or serve the file (llama.cpp) and audit it by what it says: model "
            'family "text".'
        )
    if not folder.is_dir():
        raise ValueError(f"model folder must exist; nothing at {folder}: check the path.")
    for patterns in (("config.json",), WEIGHTS):
        if not any(any(folder.glob(pattern)) for pattern in patterns):
            raise ValueError(
                f"model folder must hold {' or '.join(patterns)}; none in {folder}: name the "
                "folder that holds the model's files."
            )
    _refuse_config(folder)
    if not any((folder / name).is_file() for name in TOKENISERS):
        raise ValueError(
            f"model folder must hold a tokeniser ({', '.join(TOKENISERS)}); none in {folder}: add "
            "its files."
        )


def _refuse_config(folder: Path) -> None:
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ValueError(
            f"{folder / 'config.json'} must be JSON; it cannot be read: get the file again."
        ) from None
    if isinstance(config, dict) and config.get("format") == FORMAT:
        audit = folder.parent if (folder.parent / MANIFEST).is_file() else "DIR"
        raise ValueError(
            f'a model of family "folder" must be one of Hugging Face; {folder} was trained by '
            f"metastable itself: run `metastable audit serve {audit}` on the audit that trained it "
            'and set family = "text" with the url that it prints.'
        )
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ValueError(
            f"{folder / 'config.json'} must name the model's architecture (model_type); it does "
            "not: name the folder of a causal language model, or get the file again."
        )


def file_digests(path: str | Path) -> dict[str, str]:
    """SHA-256 of a file, or of each file that lies directly in a folder, by name."""
    path = Path(path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return {file.name: sha256(file) for file in files if file.is_file()}


def weights_digest(model: Any) -> str:
    """SHA-256 over names, shapes and numbers of a model's weights, in the order of their names."""
    sha = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        array = weight.detach().cpu().numpy()
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def make_alphabet(kind: str, texts: Sequence[str]) -> Alphabet:
    """ "characters" (those of the texts) or "bytes"."""
    return Bytes() if kind == "bytes" else Characters.of(texts)


def torch_device(name: str) -> torch.device:
    """A device by its name, tried out."""
    try:
        device = torch.device(name)
        float(torch.zeros(1, device=device))  # a device without numbers, such as meta, fails here
    except Exception as error:  # each backend has errors of its own
        reason = " ".join(str(error).split())[:80]
        raise ValueError(
            f'device must be one that PyTorch has here; got {name!r} ({reason}): use "cpu".'
        ) from None
    return device
