"""The keys of the file, and the types of their values."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from isthmus.config.reading.document import Path
from isthmus.config.sections.schema import FabricSection
from isthmus.config.sections.section import Section


def section_of(annotation: Any) -> type[Section] | None:
    """Return the section in a field, be it alone, optional, in a list or under names of its own."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    found = (section_of(argument) for argument in get_args(annotation))
    return next((section for section in found if section is not None), None)


def section_at(path: Path, root: type[Section] = FabricSection) -> type[Section] | None:
    """Return the section at a path of the file, or of one of its sections, the `root`; `None` if there is none."""
    section: type[Section] | None = root
    rest = list(path)
    while rest and section is not None:
        field = section.model_fields.get(str(rest.pop(0)))
        section = section_of(field.annotation) if field is not None else None
        # A position or a name follows a list or a map of sections.
        if section is not None and rest and field and _is_within(get_origin(field.annotation), rest[0]):
            rest.pop(0)
    return section


def _is_within(origin: Any, part: str | int) -> bool:
    """Return whether a part of a path is a name in a map, or a position in a list that is written as one."""
    return origin is dict or (origin is tuple and isinstance(part, int))


def inner(annotation: Any, key: str | int) -> Any:
    """Return the annotation of a value's key: a section, a list (a tuple), a map or a plain type; without `Optional`.
    `None` if there is no such key.
    """
    if isinstance(annotation, type) and issubclass(annotation, Section):
        field = annotation.model_fields.get(str(key))
        return None if field is None else _bare(field.annotation)
    arguments = get_args(annotation)
    return _bare(arguments[1 if get_origin(annotation) is dict else 0]) if arguments else None


def find_unknown(path: Path, root: type[Section]) -> Path | None:
    """Return the path of the first key that its section does not have; `None` if all are known."""
    annotation: Any = root
    for end, part in enumerate(path, start=1):
        if get_origin(annotation) is tuple and isinstance(part, str):
            # A single item may be written without its list.
            annotation = section_of(annotation)
        has_keys = isinstance(annotation, type) and issubclass(annotation, Section)
        annotation = inner(annotation, part) if has_keys or get_origin(annotation) is dict else None
        if annotation is None:
            return path[:end]
    return None


def _bare(annotation: Any) -> Any:
    if isinstance(annotation, types.UnionType) or get_origin(annotation) in (Annotated, Union):
        found = [argument for argument in get_args(annotation) if section_of(argument) is not None]
        return _bare(found[0] if found else get_args(annotation)[0])
    return annotation


def sections(section: type[Section] = FabricSection) -> Iterator[type[Section]]:
    """Yield all sections of the file, from the top, each before those in it."""
    yield section
    for field in section.model_fields.values():
        inner = section_of(field.annotation)
        if inner is not None:
            yield from sections(inner)
