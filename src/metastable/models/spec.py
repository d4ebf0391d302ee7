"""An inspection as a spec: which model, which texts, what is kept and what is changed."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from metastable.core.spec import Count, Positive, Seed, Spec, fingerprint


class Inspect(Spec):
    """How the tokens of a text move through the layers of a transformer.

    `model` is a folder, a .gguf file or a name such as rxnmapper; `text` a file or a folder of .txt
    files; `lines` makes every line of the file a text of its own. The rest goes to `capture`.
    """

    PATHS = ("text",)

    kind: Literal["inspect"] = "inspect"
    model: str
    text: str
    lines: bool = False
    tokens: Count | None = None
    depth: Count | None = None
    heads: Count | None = None
    part: str = ""
    centre: str = "raw"
    special: bool = True
    first: bool = True
    gain: bool = True
    final_norm: bool = False
    step: Positive = 1.0
    cycle: bool = False
    ablate: tuple[str, ...] = ()
    seed: Seed = 0
    control: bool = True
    dtype: str = "float32"

    @property
    def digest(self) -> str:
        """SHA-256 of the content and of the texts, the name aside."""
        content = self.model_dump(mode="json", exclude={"name"})
        files = sorted(Path(self.text).glob("*.txt")) if Path(self.text).is_dir() else [self.text]
        content["texts"] = [
            hashlib.sha256(Path(file).read_bytes()).hexdigest()
            for file in files
            if Path(file).is_file()
        ]
        return fingerprint(content)


def read_prompts(path: Path, lines: bool) -> list[str]:
    """The texts of a file, of its lines, or of a folder."""
    if path.is_dir():
        texts = [file.read_text(encoding="utf-8") for file in sorted(path.glob("*.txt"))]
    elif path.is_file():
        whole = path.read_text(encoding="utf-8")
        texts = [line for line in whole.splitlines() if line.strip()] if lines else [whole]
    else:
        raise ValueError(f"--text must be a file or a folder of .txt files; nothing at {path}.")
    if not any(text.strip() for text in texts):
        raise ValueError(f"--text must hold text; {path} is empty: give another file.")
    return texts


def inspect_spec(spec: Inspect, unfinished: Path | None, progress: bool | None) -> Any:
    """Look at the model and the texts of a spec; nothing of it can be gone on with."""
    texts = read_prompts(Path(spec.text), spec.lines)
    for package in ("torch", "transformers", "safetensors"):
        if find_spec(package) is None:
            raise ValueError(
                f"inspect needs the package {package}: install the extra [models], as README says."
            )
    from metastable.models.ablate import ablation
    from metastable.models.inspection import inspect

    choices = spec.model_dump(exclude={"kind", "name", "model", "text", "lines", "ablate"})
    ablate = [ablation(name) for name in spec.ablate]
    return inspect(spec.model, texts, ablate=ablate, progress=progress, **choices)
