"""What `kind = "..."` may say in a part of a spec, and what is built from it."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from pydantic import WrapValidator, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticKnownError

from metastable.core.spec import Model

PLUGINS: dict[str, str] = {}  # files of a user that were run, path → SHA-256

Maker = TypeVar("Maker", bound=Callable[..., Any])


class Registry:
    """The kinds of one part of a spec: of a field, a start or a stepper.

    - `written`: the union of the specs that are written out, readable without JAX.
    - `index`: kind → "module:name" of a class or function whose signature is its spec: every
      parameter has a type of `metastable.core.spec`. Imported when the kind is first asked for.

    `register` adds kinds of a user. `validator` stands beside the union in a model's annotation.
    """

    def __init__(self, noun: str, written: Any, index: Mapping[str, str] | None = None):
        self.noun = noun
        self._written = {_kind_of(model): model for model in get_args(written)}
        self._index = dict(index or {})
        self._makers: dict[str, Callable[..., Any]] = {}
        self._models: dict[str, type[Model]] = {}

    @property
    def kinds(self) -> list[str]:
        return [*self._written, *self._index, *(k for k in self._makers if k not in self._index)]

    @property
    def homes(self) -> dict[str, str]:
        """Name of each class or function of the index → its module."""
        places = (place.split(":") for place in self._index.values())
        return {name: module for module, name in places}

    def register(self, kind: str) -> Callable[[Maker], Maker]:
        """A decorator: specs may name the class or function below it by this kind."""
        if kind in self._written or kind in self._index:
            raise ValueError(f"{kind!r} is already a kind of {self.noun}: choose another name.")

        def keep(maker: Maker) -> Maker:
            self._models[kind] = _model(self.noun, kind, maker)
            self._makers[kind] = maker
            return maker

        return keep

    def maker(self, described: Model) -> Callable[..., Any]:
        """What makes the thing that a spec without a written model describes."""
        return self._maker(described.kind)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def validator(self) -> WrapValidator:
        def validate(value: Any, written: Callable[[Any], Any]) -> Any:
            kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
            if not isinstance(kind, str) or kind in self._written:
                return written(value)
            if kind not in self.kinds:
                expected = ", ".join(map(repr, self.kinds))
                context = {"discriminator": "'kind'", "tag": kind, "expected_tags": expected}
                raise PydanticKnownError("union_tag_invalid", context)
            if kind not in self._models:
                self._models[kind] = _model(self.noun, kind, self._maker(kind))
            return self._models[kind].model_validate(value)

        return WrapValidator(validate)

    def _maker(self, kind: str) -> Callable[..., Any]:
        if kind not in self._makers:
            module, name = self._index[kind].split(":")
            self._makers[kind] = found_in(module, name)
        return self._makers[kind]


def found_in(module: str, name: str) -> Any:
    """What a module holds by that name; the package knows it by it too.

    Importing `package.ring` binds the module as `package.ring`, where a function is meant.
    """
    value = getattr(import_module(module), name)
    setattr(sys.modules[module.rpartition(".")[0]], name, value)
    return value


def _kind_of(model: type[Model]) -> str:
    return get_args(model.model_fields["kind"].annotation)[0]


def _model(noun: str, kind: str, maker: Callable[..., Any]) -> type[Model]:
    """The spec that the signature of a class or function says."""
    parameters = inspect.signature(maker).parameters.values()
    own = isinstance(maker, type) and "__init__" in vars(maker)
    hints = get_type_hints(maker.__init__ if own else maker, include_extras=True)
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}  # pyright: ignore[reportInvalidTypeForm]
    for parameter in parameters:
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, _Unstated), default)
    try:
        return create_model(maker.__name__, __base__=Model, **fields)
    except PydanticSchemaGenerationError:
        raise ValueError(
            f"the {noun} {kind!r} has a parameter that no spec can hold: give each a type such as "
            "Real, Positive, Count, Dim, Seed, bool, list[Real], Rows, Operator or a Literal, of "
            "metastable.core.spec."
        ) from None


def load_plugin(path: str | Path) -> None:
    """Run a Python file that registers kinds; its checksum goes into the manifests."""
    path = Path(path).resolve()
    if str(path) in PLUGINS:
        return
    if not path.is_file() or path.suffix != ".py":
        raise ValueError(f"--plugin must be a Python file (.py); got {path}.")
    name = f"metastable_plugin_{path.stem}"
    place = importlib.util.spec_from_file_location(name, path)
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    sys.modules[name] = module
    try:
        place.loader.exec_module(module)
    except (KeyboardInterrupt, SystemExit):
        raise
    except ValueError as error:
        raise ValueError(f"--plugin {path.name}: {error}") from error
    except Exception as error:
        raise ValueError(
            f"--plugin {path.name} failed ({type(error).__name__}: {error}); run it with Python "
            "to see where."
        ) from error
    PLUGINS[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()


class _Unstated:
    """The type of a parameter without one."""
