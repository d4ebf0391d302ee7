"""An inspection as a spec: which model, which texts, what is kept and what is changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from metastable.core.spec import Count, Positive, Real, Seed, Spec, fingerprint


class Inspect(Spec):
    """How the tokens of a text move through the layers of a transformer, or of several.

    `model` is a folder, a .gguf file, a name such as rxnmapper, or one in the Hugging Face cache;
    or several of them. `text` is a file, a folder of .txt files, or the sentence itself; `lines`
    makes every line of the file a text of its own. `betas` looks at the same with attention logits
    times each of them. `cosine` is what joins two tokens to a cluster. `twins` of the same shape
    without training stand beside it, with weights by `seed` and the next. The rest goes to
    `capture`.
    """

    kind: Literal["inspect"] = "inspect"
    model: str | Annotated[tuple[str, ...], Field(min_length=1)]
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
    betas: tuple[Real, ...] = ()
    seed: Seed = 0
    control: bool = True
    twins: Annotated[int, Field(ge=1, le=100)] = 3
    cosine: Annotated[float, Field(gt=-1, lt=1, allow_inf_nan=False)] = 0.99
    device: str | None = None
    dtype: Literal["float32", "float64", "bfloat16", "float16"] = "float32"

    @classmethod
    def from_tree(
        cls,
        tree: dict[str, Any],
        overrides: Mapping[str, Any] | None = None,
        folder: Path | None = None,
    ) -> Self:
        """A file is looked for beside the spec; a sentence is none."""
        text = tree.get("text")
        if folder is not None and isinstance(text, str):
            beside = str(folder / text)
            tree["text"] = beside if is_there(beside) or looks_like_path(text) else text
        return super().from_tree(tree, overrides)

    @property
    def models(self) -> tuple[str, ...]:
        return (self.model,) if isinstance(self.model, str) else self.model

    @property
    def digest(self) -> str:
        """SHA-256 of the content and of the texts, the name aside."""
        content = self.model_dump(mode="json", exclude={"name"})
        files = [] if is_sentence(self.text) else [Path(self.text)]
        if files and files[0].is_dir():
            files = sorted(files[0].glob("*.txt"))
        content["texts"] = [
            hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()
        ]
        return fingerprint(content)


def is_there(path: str) -> bool:
    """Whether a text is the path of something that exists."""
    try:
        return bool(path.strip()) and Path(path).exists()
    except (OSError, ValueError):  # too long for a name, or with what no name holds
        return False


def looks_like_path(text: str) -> bool:
    """Whether a text ends in .txt, or is one word with a slash.

    >>> [looks_like_path(text) for text in ("truths.txt", "texts/truths", "truth and/or falsehood")]
    [True, True, False]
    """
    return text.rstrip().endswith(".txt") or ("/" in text and len(text.split()) == 1)


def is_sentence(text: str) -> bool:
    """Whether a text is meant itself, and not what lies at a path."""
    return not is_there(text) and not looks_like_path(text)


def read_prompts(text: str, lines: bool) -> list[str]:
    """The texts of a file, of its lines, or of a folder; or the sentence itself."""
    path = Path(text)
    if is_sentence(text):
        texts = [text]
    elif path.is_dir():
        texts = [_read(file) for file in sorted(path.glob("*.txt"))]
    elif path.is_file():
        whole = _read(path)
        texts = [line for line in whole.splitlines() if line.strip()] if lines else [whole]
    else:
        raise ValueError(
            f"--text must be a file, a folder of .txt files or a sentence; nothing at {path}: "
            "check the path."
        )
    if not any(one.strip() for one in texts):
        where = "the sentence" if is_sentence(text) else path
        raise ValueError(f"--text must hold text; {where} is empty: give another.")
    return texts


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(
            f"--text must be plain text in UTF-8; {file} is not: convert it, or give another."
        ) from None


def inspect_spec(spec: Inspect, unfinished: Path | None, progress: bool | None) -> Any:
    """Look at the models and the texts of a spec; nothing of it can be gone on with."""
    texts = read_prompts(spec.text, spec.lines)
    for package in ("torch", "transformers", "safetensors"):
        if find_spec(package) is None:
            raise ValueError(
                f"inspect needs the package {package}: install the extra [models], as README says."
            )
    from metastable.models import inspection, inspections
    from metastable.models.ablate import ablation

    left_out = {"kind", "name", "model", "text", "lines", "ablate", "betas"}
    ablate = [ablation(name) for name in spec.ablate]
    choices: dict[str, Any] = spec.model_dump(exclude=left_out)
    choices |= {"ablate": ablate, "progress": progress}
    if len(spec.models) == 1 and not spec.betas:
        return inspection.inspect(spec.models[0], texts, **choices)
    return inspections.inspect_many(spec.models, texts, betas=spec.betas, **choices)
