"""Models in folders: config.json says what, model.safetensors holds the weights. No pickles."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from metastable.models.own.recurrent import Recurrent, RecurrentConfig
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder, TransformerConfig

CONFIG, WEIGHTS, FORMAT = "config.json", "model.safetensors", "metastable model 1"
_FAMILIES = {
    "decoder": (DecoderOnly, TransformerConfig),
    "encoder-decoder": (EncoderDecoder, TransformerConfig),
    "recurrent": (Recurrent, RecurrentConfig),
}


def save_model(model: DecoderOnly | EncoderDecoder | Recurrent, folder: str | Path) -> Path:
    """Write the model into a new or empty folder, which is returned."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            f"folder must be new or empty; {folder} is not: choose another, or remove it yourself."
        )
    family = next((name for name, (kind, _) in _FAMILIES.items() if type(model) is kind), None)
    if family is None:
        own = ", ".join(kind.__name__ for kind, _ in _FAMILIES.values())
        raise ValueError(
            f"model must be one of ours ({own}); got {type(model).__name__}: a model of "
            "transformers is written by its own save_pretrained(folder)."
        )
    folder.mkdir(parents=True, exist_ok=True)
    described = {"format": FORMAT, "family": family} | dataclasses.asdict(model.config)
    (folder / CONFIG).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    save_file({k: w.contiguous() for k, w in model.state_dict().items()}, folder / WEIGHTS)
    return folder


def load_model(folder: str | Path) -> Any:
    """The model kept in a folder, ready to be used; anything unknown about it is refused."""
    folder = Path(folder)
    described = _read_config(folder / CONFIG)
    if described.pop("format", None) != FORMAT:
        raise ValueError(f"{folder / CONFIG} must say format {FORMAT!r}: save with save_model.")
    family = described.pop("family", None)
    if family not in _FAMILIES:
        raise ValueError(
            f"family in {folder / CONFIG} must be one of {', '.join(_FAMILIES)}; got {family!r}."
        )
    kind, config = _FAMILIES[family]
    known = {field.name for field in dataclasses.fields(config)}
    if set(described) != known:
        odd = ", ".join(sorted(set(described) ^ known))
        raise ValueError(f"{folder / CONFIG} must hold exactly the keys of its family; odd: {odd}.")
    model = kind(config(**described))
    try:
        weights = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{folder / WEIGHTS} must hold the weights, whole: {error}.") from None
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise ValueError(
            f"{folder / WEIGHTS} must fit {CONFIG} beside it; names or shapes differ."
        ) from None
    return model.eval()


def _read_config(path: Path) -> dict[str, Any]:
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be a readable JSON file: {error}.") from None
    if not isinstance(described, dict):
        raise ValueError(f"{path} must hold a JSON object; got {type(described).__name__}.")
    return described
