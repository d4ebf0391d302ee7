"""Transformers from the disk: a Hugging Face folder, a GGUF file, or a name of `pretrained`.

Nothing is downloaded and nothing of what is read is executed: no remote code, no pickle that asks
for more than tensors, no model whose weights are incomplete.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from metastable.models.network import Network, wrap
from metastable.models.smiles import SmilesTokenizer

DTYPES = {"float32": torch.float32, "float64": torch.float64}
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def load(source: Any, dtype: str = "float32") -> Network:
    """A network from a folder, a .gguf file, a name known to `pretrained`, or a model in memory.

    A folder holds `config.json` and weights (safetensors, or a pickle of tensors alone), and a
    tokeniser if texts are to be read. `dtype` is the precision it runs in: float32 or float64,
    whatever precision the file has. A model in memory is left as it is: see `_twin`.
    """
    from metastable.models.gguf import load_gguf
    from metastable.models.pretrained import NAMES, locate

    if dtype not in DTYPES:
        raise ValueError(f"dtype must be float32 or float64; got {dtype!r}.")
    if isinstance(source, Network):
        return source
    if isinstance(source, torch.nn.Module):
        return wrap(_twin(source))
    if not isinstance(source, str | Path):
        raise ValueError(
            f"model must be a folder, a .gguf file or a model; got {type(source).__name__}."
        )
    path, name = Path(source), str(source)
    if name in NAMES and not path.exists():
        path = locate(name)
    if path.is_file() and path.suffix == ".gguf":
        return load_gguf(path, name, dtype)
    if not path.is_dir():
        raise ValueError(
            f"model must be a folder, a .gguf file or one of {', '.join(NAMES)}; nothing at {path}."
        )
    return load_folder(path, name, dtype)


def _twin(model: torch.nn.Module) -> torch.nn.Module:
    """The same model with modules, configuration and hooks of its own, and the same tensors.

    Looking at it needs evaluation mode and plain attention, which would stay on the model given.
    """
    tensors = [*model.parameters(), *model.buffers()]
    for module in model.modules():  # and those that a module keeps as plain attributes
        tensors += [value for value in vars(module).values() if isinstance(value, torch.Tensor)]
    return copy.deepcopy(model, {id(one): one for one in tensors})  # the memo is not copied


def load_folder(folder: Path, name: str, dtype: str = "float32") -> Network:
    """A network from a Hugging Face folder; see `load`."""
    config = _read_config(folder)
    if not any(any(folder.glob(pattern)) for pattern in WEIGHTS):
        raise ValueError(
            f"model folder must hold weights ({' or '.join(WEIGHTS)}); none in {folder}."
        )
    from transformers import AutoConfig, AutoModel

    try:
        parsed = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError, OSError):
        known = f"model_type {config.get('model_type')!r} of {folder / 'config.json'}"
        raise ValueError(
            f"architecture must be one that transformers knows; got {known}."
        ) from None
    except Exception as error:  # of its own validation
        text = " ".join(str(error).split())[:160]
        raise ValueError(
            f"{folder / 'config.json'} must hold what its model_type asks for; it does not: {text}"
        ) from None
    with quiet():
        try:
            model, told = AutoModel.from_pretrained(
                folder,
                config=parsed,
                local_files_only=True,
                trust_remote_code=False,
                weights_only=True,
                dtype=DTYPES[dtype],
                attn_implementation="eager",
                output_loading_info=True,
            )
        except Exception as error:  # of safetensors, pickle, torch or transformers: all bad files
            raise ValueError(_complaint(folder, error)) from None
    # A pooler comes after the states and is often left out of a file.
    missing = [key for key in told["missing_keys"] if "pooler" not in key]
    if missing:
        raise ValueError(
            f"weights in {folder} must be complete; {len(missing)} tensors are missing, such as "
            f"{sorted(missing)[0]}: get the whole folder again."
        )
    return wrap(model, name, _load_tokenizer(folder))


def _read_config(folder: Path) -> dict[str, Any]:
    """config.json, after refusing a folder that wants its own code run."""
    told: dict[str, Any] = {}
    for file in ("tokenizer_config.json", "config.json"):
        path = folder / file
        if not path.is_file():
            continue
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise ValueError(f"{path} must be JSON; it cannot be read.") from None
        if not isinstance(told, dict):
            raise ValueError(
                f"{path} must hold a JSON object; got {type(told).__name__}: get the file again."
            )
        if "auto_map" in told:
            raise ValueError(
                f"model folder must not ask for code of its own to be run; {path} does "
                "(auto_map), and it was not run: use a model that transformers itself knows."
            )
    if not (folder / "config.json").is_file():
        raise ValueError(f"model folder must hold config.json; none in {folder}.")
    return told


def _complaint(folder: Path, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "weights_only" in text or "Weights only load failed" in text or "Unpickling" in text:
        return (
            f"weights must be tensors alone; the pickle in {folder} asks for code to be run, and "
            "it was not: convert it to safetensors where you trust it."
        )
    return (
        f"weights in {folder} must be readable and fit config.json; they are missing, cut short or "
        f"of another model: {text[:160]}"
    )


def _load_tokenizer(folder: Path) -> Any:
    """The folder's tokeniser, or None where it has none."""
    if SmilesTokenizer.suits(folder):
        return SmilesTokenizer(folder / "vocab.txt")
    files = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model")
    if not any((folder / file).is_file() for file in files):
        return None
    from transformers import AutoTokenizer

    with quiet():
        try:
            return AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # of tokenizers or transformers: all bad files
            text = " ".join(str(error).split())[:160]
            raise ValueError(f"tokeniser in {folder} must be readable; it is not: {text}") from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' own bars and reports: what matters is said in our words."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
