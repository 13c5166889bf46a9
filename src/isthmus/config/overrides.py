"""Keys of the file that environment variables replace: `ISTHMUS_CLUSTERS__EAST__BOOTSTRAP_SERVERS=east:9092`.

A variable's parts, between two underscores each, are the keys on the way from the top, in any case; whatever is no
letter and no digit in a key is an underscore in a variable. An item of a list goes by its `name` or its position.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, get_origin

from pydantic import TypeAdapter, ValidationError

from isthmus.config.reading.document import ConfigDocument, Path, format_path
from isthmus.config.reading.keys import inner, section_at, section_of
from isthmus.config.reading.problems import nearest
from isthmus.config.sections.schema import FabricSection
from isthmus.config.sections.section import Section
from isthmus.errors import ConfigError

PREFIX: Final = "ISTHMUS_"
SEPARATOR: Final = "__"


def overridden(document: ConfigDocument, environment: Mapping[str, str]) -> ConfigDocument:
    """Return the document with the values of variables in place of its own, in the order of their names.

    :raises ConfigError: Variables name keys that there are not, or hold invalid values; all of them are reported.
    """
    mistakes: list[_Mistake] = []
    for variable in variables(environment):
        try:
            path = _path(document.root, variable.removeprefix(PREFIX).split(SEPARATOR), variable)
            root = _replace_at(document.root, path, _value(path, environment[variable], variable))
            document = replace(document, root=root, given={**document.given, path: variable})
        except _Mistake as mistake:
            mistakes.append(mistake)
    if mistakes:
        raise ConfigError(
            "\n".join(mistake.message for mistake in mistakes),
            hint="\n".join(dict.fromkeys(mistake.hint for mistake in mistakes)),
        )
    return document


def variables(environment: Iterable[str]) -> list[str]:
    """Return the variables for keys of the file, sorted."""
    return sorted(name for name in environment if name.startswith(PREFIX) and SEPARATOR in name)


class _Mistake(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def _path(root: object, parts: list[str], variable: str) -> Path:
    """Return the path of a variable's value: keys as the file has them, or would have them."""
    path: Path = ()
    node = root
    annotation: Any = FabricSection
    for part in parts:
        if get_origin(annotation) is tuple and isinstance(node, Mapping):
            # A section alone may stand for a list of it.
            annotation = inner(annotation, 0)
        if get_origin(annotation) is tuple:
            items = node if isinstance(node, tuple) else ()
            position = _position(items, part, path, variable)
            path, node, annotation = (*path, position), items[position], inner(annotation, position)
        else:
            values = node if isinstance(node, Mapping) else {}
            key = _key(values, annotation, part, path, variable)
            path, node, annotation = (*path, key), values.get(key), inner(annotation, key)
    return path


def _position(items: tuple[object, ...], part: str, path: Path, variable: str) -> int:
    names = [str(item.get("name", "")) if isinstance(item, Mapping) else "" for item in items]
    for position, name in enumerate(names):
        if part.upper() in (_spelt(name), str(position)):
            return position
    raise _Mistake(
        f"{variable}: {format_path(path)} has no {part.lower()}",
        f"There is {', '.join(filter(None, names)) or 'none'}: missing entries of a list have to be written into the "
        "file.",
    )


def _key(values: Mapping[str, object], annotation: Any, part: str, path: Path, variable: str) -> str:
    section = annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None
    known = [] if section is None else list(section.model_fields)
    for name in (*values, *known):
        if part.upper() == _spelt(name):
            return name
    if section is None and section_of(annotation) is not None:
        # A map of sections, under user-defined names.
        return part.lower()
    near = nearest(part.lower(), known)
    listed = f"Known there: {', '.join(known)}." if known else "Keys that people choose have to be in the file first."
    raise _Mistake(
        f"{variable}: {format_path(path) or 'the file'} has no key {part.lower()}",
        listed if near is None else f"Did you mean {near}? {listed}",
    )


def _value(path: Path, text: str, variable: str) -> object:
    """Return the text itself if the key accepts it, else its value in YAML."""
    section = section_at(path[:-1])
    field = None if section is None else section.model_fields.get(str(path[-1]))
    if field is not None:
        with contextlib.suppress(ValidationError):
            adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
            adapter.validate_python(text, strict=True)
            return text
    try:
        return ConfigDocument.parse(text, variable).root if text else None
    except ConfigError as error:
        raise _Mistake(str(error), error.hint) from None


def _replace_at(node: object, path: Path, value: object) -> object:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        items = node if isinstance(node, tuple) else ()
        return tuple(_replace_at(item, rest, value) if n == first else item for n, item in enumerate(items))
    values = dict(node) if isinstance(node, Mapping) else {}
    values[first] = _replace_at(values.get(first), rest, value)
    return values


def _spelt(key: str) -> str:
    """Spell a key as in a variable."""
    return re.sub(r"[^A-Z0-9]", "_", key.upper())
