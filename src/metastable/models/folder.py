"""Transformers from memory or disk: a model, a Hugging Face folder, a GGUF file, a name.

Nothing is downloaded and nothing of what is read is executed: no remote code, no pickle that asks
for more than tensors, no model whose weights are incomplete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from metastable.core.errors import did_you_mean
from metastable.models.network import Network, wrap
from metastable.models.own.language import LanguageModel
from metastable.models.own.saving import FORMAT, load_model
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder
from metastable.models.pretrained import NAMES, cached, cached_names, hub_cache, locate, sha256
from metastable.models.prompts import SmilesTokenizer, check_tokenizer
from metastable.models.twin import DTYPES, check_memory, read_device, read_dtype, twin_of

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
SHOWN = 5  # names that a refusal lists
CPU = torch.device("cpu")
# In a notebook transformers' bars ask for widgets; nothing here shows them.
warnings.filterwarnings("ignore", message="IProgress not found")
_SAFE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def load(source: Any, tokenizer: Any = None, device: Any = None, dtype: Any = None) -> Network:
    """A network from a model in memory, a folder, a .gguf file, or a name.

    - `source`: a model of transformers or one of ours, which is left as it is (see `twin_of`); a
      folder with `config.json` and weights (safetensors, or a pickle of tensors alone), or one that
      `save_model` wrote; a name of `pretrained`; or a name such as "gpt2" or "org/model" that is
      in the Hugging Face cache.
    - `tokenizer`: one of transformers, or where one lies, for a model in memory that is to read
      texts; a folder has its own.
    - `device`: "cpu", "cuda", "cuda:1"; None leaves a model in memory where it is, and puts one
      from the disk on the CPU.
    - `dtype`: the precision it runs in, "float32", "float64", "bfloat16" or "float16"; None keeps
      that of a model in memory, and reads files in float32, whatever they hold.
    """
    kind, place = read_dtype(dtype), read_device(device)
    if isinstance(source, Network):
        twin = twin_of(source.model, kind, place, always=False)
        network = source if twin is source.model else dataclasses.replace(source, model=twin)
    elif isinstance(source, nn.Module):
        network = wrap(twin_of(source, kind, place))
    elif isinstance(source, str | Path):
        network = _load_folder(_find(source), str(source), kind or torch.float32, place)
    else:
        raise ValueError(
            f"model must be a folder, a .gguf file or a model; got {type(source).__name__}."
        )
    if tokenizer is None:
        return network
    if isinstance(tokenizer, str | Path):
        tokenizer = _tokenizer_at(tokenizer)
    return dataclasses.replace(network, tokenizer=check_tokenizer(tokenizer, network))


def _find(source: str | Path) -> Path:
    """The folder that a path or a name means; a GGUF file is made into one."""
    path, name = Path(source), str(source)
    if name in NAMES and not path.exists():
        path = locate(name)
    elif not path.exists():
        path = cached(name) or path
    if path.is_file() and path.suffix == ".gguf":
        return _from_gguf(path)
    if path.is_file():
        raise ValueError(
            f"model must be a folder or a .gguf file; got the file {path}: states in a file are "
            "read by Trajectory.from_states."
        )
    if not path.is_dir():
        raise ValueError(
            f"model must be a folder, a .gguf file, one of {', '.join(NAMES)} or a name in the "
            f"Hugging Face cache; nothing at {path}: "
            f"{did_you_mean(path, NAMES) or _in_cache() + '.'}"
        )
    return path


def _in_cache() -> str:
    names = cached_names()
    if not names:
        return f"no model is cached in {hub_cache()}"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"cached are {', '.join(names[:SHOWN])}{more}"


def _load_folder(
    folder: Path, name: str, dtype: torch.dtype, device: torch.device | None
) -> Network:
    """A network from a Hugging Face folder, or from one of ours; see `load`."""
    config = _read_config(folder)
    if config.get("format") == FORMAT:
        own = load_model(folder)
        if not isinstance(own, DecoderOnly | EncoderDecoder):
            raise ValueError(f"model must be a transformer; {folder} holds a recurrent network.")
        return wrap(own.to(device or CPU, dtype), name)
    if not any(any(folder.glob(pattern)) for pattern in WEIGHTS):
        raise ValueError(
            f"model folder must hold weights ({' or '.join(WEIGHTS)}); none in {folder}."
        )
    need = _size(folder, config, dtype)
    for place in {CPU, device or CPU}:  # read on the one, then moved to the other
        check_memory(f"{name} in {str(dtype).removeprefix('torch.')}", need, place)
    from transformers import AutoConfig, AutoModel

    try:
        parsed = AutoConfig.from_pretrained(folder, **_SAFE)
    except (ValueError, KeyError, OSError):
        known = f"model_type {config.get('model_type')!r} of {folder / 'config.json'}"
        raise ValueError(
            f"architecture must be one that transformers knows; got {known}."
        ) from None
    except Exception as error:  # of its own validation
        raise ValueError(
            f"{folder / 'config.json'} must hold what its model_type asks for; it does not: "
            f"{_reason(error)}"
        ) from None
    settings = {"config": parsed, "dtype": dtype, "attn_implementation": "eager"}
    model = _read_weights(AutoModel, folder, "complete", **settings)
    return wrap(model if device is None else model.to(device), name, _load_tokenizer(folder))


def _size(folder: Path, config: dict[str, Any], dtype: torch.dtype) -> float:
    """Bytes of the weights of a folder in a precision: those of the files that would be read."""
    files: list[Path] = []
    for whole in ("model.safetensors", "pytorch_model.bin"):  # what transformers asks for, in turn
        index = folder / f"{whole}.index.json"
        if (folder / whole).is_file():
            files = [folder / whole]
        elif index.is_file():
            with contextlib.suppress(ValueError, AttributeError, TypeError):  # told when it is read
                parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
                files = [folder / part for part in sorted(set(parts))]
        if files:
            break
    stored = DTYPES.get(str(config.get("dtype") or config.get("torch_dtype")), torch.float32)
    held = sum(file.stat().st_size for file in files if file.is_file())
    return held * dtype.itemsize / stored.itemsize


class Hugging(nn.Module, LanguageModel):
    """A causal model of transformers; its own positions are added to whatever vectors come."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        self.table = model.get_input_embeddings()
        self.vocabulary, self.width = self.table.weight.shape
        self.places = getattr(model.config, "max_position_embeddings", None)

    def embed(self, ids: Tensor) -> Tensor:
        return self.table(ids)

    def forward_embeddings(self, embeddings: Tensor) -> Tensor:
        if self.places and embeddings.shape[1] > self.places:
            raise ValueError(
                f"prompt and item must fit the model's {self.places} places; they take "
                f"{embeddings.shape[1]}: shorten the items or the prompt."
            )
        return self.model(inputs_embeds=embeddings, use_cache=False).logits.log_softmax(-1)


def load_causal(folder: str | Path) -> tuple[Hugging, Any]:
    """The causal language model and the tokeniser of a Hugging Face folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"model folder must exist; nothing at {folder}: check the path.")
    _read_config(folder)
    from transformers import AutoModelForCausalLM

    need = "those of a causal language model"
    model = _read_weights(AutoModelForCausalLM, folder, need, dtype=torch.float32)
    tokenizer = _load_tokenizer(folder)
    if tokenizer is None:
        raise ValueError(f"model folder must hold a tokeniser; none in {folder}: add its files.")
    return Hugging(model).eval(), tokenizer


def load_tokenizer(folder: str | Path) -> Any:
    """The tokeniser of a Hugging Face folder; its weights stay closed."""
    folder = Path(folder)
    _read_config(folder)
    tokenizer = _load_tokenizer(folder)
    if tokenizer is None:
        raise ValueError(f"model folder must hold a tokeniser; none in {folder}: add its files.")
    return tokenizer


def _read_config(folder: Path) -> dict[str, Any]:
    """config.json, after refusing a folder that wants its own code run."""
    content = _refuse_code(folder)
    if not (folder / "config.json").is_file():
        raise ValueError(f"model folder must hold config.json; none in {folder}.")
    return content


def _refuse_code(folder: Path) -> dict[str, Any]:
    """The content of config.json where it is there; a folder that wants its own code is refused."""
    content: dict[str, Any] = {}
    for file in ("tokenizer_config.json", "config.json"):
        path = folder / file
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise ValueError(f"{path} must be JSON; it cannot be read.") from None
        if not isinstance(content, dict):
            raise ValueError(
                f"{path} must hold a JSON object; got {type(content).__name__}: get the file again."
            )
        if "auto_map" in content:
            raise ValueError(
                f"model folder must not ask for code of its own to be run; {path} does "
                "(auto_map), and it was not run: use a model that transformers itself knows."
            )
    return content


def _read_weights(kind: Any, folder: Path, need: str, **settings: Any) -> Any:
    """A model of a class of transformers; files that cannot be read, or lack tensors, are refused.

    A pooler comes after the states and is often left out of a file.
    """
    settings |= {"weights_only": True, "output_loading_info": True}
    with quiet():
        try:
            model, report = kind.from_pretrained(folder, **_SAFE, **settings)
        except Exception as error:  # of safetensors, pickle, torch or transformers: all bad files
            text = " ".join(str(error).split())
            if "weights_only" in text or "Weights only load failed" in text or "Unpickling" in text:
                raise ValueError(
                    f"weights must be tensors alone; the pickle in {folder} asks for code to be "
                    "run, and it was not: convert it to safetensors where you trust it."
                ) from None
            raise ValueError(
                f"weights in {folder} must be readable and fit config.json; they are missing, cut "
                f"short or of another model: {_reason(error)}"
            ) from None
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise ValueError(
            f"weights in {folder} must be {need}; {len(missing)} tensors are missing, such as "
            f"{missing[0]}: get the whole folder again."
        )
    return model


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
            return AutoTokenizer.from_pretrained(folder, **_SAFE)
        except Exception as error:  # of tokenizers or transformers: all bad files
            raise ValueError(
                f"tokeniser in {folder} must be readable; it is not: {_reason(error)}"
            ) from None


def _tokenizer_at(place: str | Path) -> Any:
    path = Path(place)
    folder = path if path.is_dir() else cached(str(place))
    if folder is None:
        raise ValueError(
            f"tokenizer must be one of transformers, a folder or a name in the Hugging Face cache; "
            f"nothing at {place}: {_in_cache()}."
        )
    _refuse_code(folder)
    tokenizer = _load_tokenizer(folder)
    if tokenizer is None:
        raise ValueError(f"tokenizer must be in the folder given; none in {folder}.")
    return tokenizer


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


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


def cache_folder() -> Path:
    """Where converted models go: $METASTABLE_CACHE, or `metastable/gguf` in the user's cache."""
    chosen = os.environ.get("METASTABLE_CACHE", "")
    if chosen and chosen.lower() != "off":
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metastable" / "gguf"


def _from_gguf(file: Path) -> Path:
    """A folder of safetensors with the content of a GGUF file, made on first use.

    Dequantising takes most of a minute and four bytes a weight on disk; the folder is named by the
    digest of the file, so a changed file is converted anew.
    """
    folder = cache_folder() / f"{file.stem}-{sha256(file)[:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix="part-"))
        try:
            _convert(file, part)
            part.replace(folder)  # complete or absent: a reader never sees half of it
            # Afterwards: a refusal is then one line. Meanwhile a terminal shows a bar of tensors.
            print(f"converted {file.name} once, into {folder}", file=sys.stderr)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


def _convert(file: Path, folder: Path) -> None:
    try:
        import gguf  # transformers asks for it only once it has begun
    except ModuleNotFoundError:
        raise ValueError("a .gguf file needs the package gguf: pip install gguf.") from None
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

    held = 0
    with contextlib.suppress(Exception):  # a file that cannot be read is told of below
        held = sum(int(tensor.n_elements) for tensor in gguf.GGUFReader(file).tensors)
    # Dequantised, and a second time to be saved.
    check_memory(f"{file.name}, converted once,", 8.0 * held, CPU)
    where = {"gguf_file": file.name, "local_files_only": True}
    with contextlib.ExitStack() as hushed:
        hushed.enter_context(quiet())
        if not sys.stderr.isatty():  # its bar of tensors has no switch of its own
            hushed.enter_context(contextlib.redirect_stderr(io.StringIO()))
        try:
            config = AutoConfig.from_pretrained(file.parent, **where)
            # With its head: the folder then also serves those who ask for probabilities.
            kind = AutoModel if config.is_encoder_decoder else AutoModelForCausalLM
            model = kind.from_pretrained(file.parent, dtype=torch.float32, **where)
            tokenizer = AutoTokenizer.from_pretrained(file.parent, **where)
        except Exception as error:  # of gguf, NumPy or transformers: all bad files
            raise ValueError(
                f"model must be a GGUF file of an architecture that transformers reads; {file} "
                f"is cut short or another: {_reason(error)}"
            ) from None
        # A model read from GGUF remembers a quantisation it no longer has, and refuses to be saved.
        vars(model.config).pop("quantization_config", None)
        plain = type(model)(model.config)
        plain.load_state_dict(model.state_dict())
        plain.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
