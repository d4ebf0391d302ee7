"""GGUF files: quantised once read, kept as an ordinary folder from then on."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

import torch

from metastable.models.folder import load_folder, quiet
from metastable.models.network import Network
from metastable.models.pretrained import sha256


def cache_folder() -> Path:
    """Where converted models go: $METASTABLE_CACHE, or `metastable/gguf` in the user's cache."""
    told = os.environ.get("METASTABLE_CACHE")
    if told:
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metastable" / "gguf"


def load_gguf(file: Path, name: str, dtype: str = "float32") -> Network:
    """A network from a GGUF file, through a folder of safetensors made on first use.

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
    return load_folder(folder, name, dtype)


def _convert(file: Path, folder: Path) -> None:
    try:
        import gguf  # noqa: F401  # transformers asks for it only once it has begun
    except ModuleNotFoundError:
        raise ValueError("a .gguf file needs the package gguf: pip install gguf.") from None
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

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
            text = " ".join(str(error).split())[:160]
            raise ValueError(
                f"model must be a GGUF file of an architecture that transformers reads; {file} "
                f"is cut short or another: {text}"
            ) from None
        # A model read from GGUF remembers a quantisation it no longer has, and refuses to be saved.
        plain = type(model)(model.config)
        plain.load_state_dict(model.state_dict())
        plain.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
