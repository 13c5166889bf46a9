"""Values from sections: what has the same name in both is written down in neither place again."""

from __future__ import annotations

import dataclasses
import enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel, SecretStr

from isthmus.model.cluster import Secret

ValueT = TypeVar("ValueT")


def take(kind: type[ValueT], source: object, /, folder: Path | None = None, **given: object) -> ValueT:
    """Build a dataclass of a section of the file, or of another value: its fields are those of the same names, but for
    those that are `given`. A text becomes the enum that the field has, and a secret a `Secret`; a field that ends with
    `_file` is a path that starts at `folder`.

    :raises TypeError: A field without a default is neither in the source nor given, or a path is without a folder.
    """
    own: Any = type(source)
    names = own.model_fields if isinstance(source, BaseModel) else _list_hints(own)
    taken = {
        name: _to_file(getattr(source, name), folder)
        if name.endswith("_file")
        else _convert(hint, getattr(source, name))
        for name, hint in _list_hints(cast(Any, kind)).items()
        if name in names and name not in given
    }
    return kind(**taken, **given)


def _to_file(text: str | None, folder: Path | None) -> str | None:
    if text is None:
        return None
    if folder is None:
        raise TypeError(f"the path {text} has no start")
    return str(folder / Path(text).expanduser())


def _convert(hint: Any, value: Any) -> Any:
    if isinstance(value, SecretStr):
        return Secret(value.get_secret_value())
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        kinds = [each for each in (hint, *get_args(hint)) if isinstance(each, type) and issubclass(each, enum.Enum)]
        return kinds[0](value) if kinds else value
    return value


@cache
def _list_hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
