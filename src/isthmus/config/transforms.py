"""The rules of `links[].transform`, and the values made of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Final, Literal

from isthmus.config.functions import read_function
from isthmus.config.reading.document import Path
from isthmus.config.reading.problems import Mistake
from isthmus.config.sections.schema import LinkSection
from isthmus.config.sections.transform import DecodingSection, TransformSection
from isthmus.config.taking import take
from isthmus.errors import ConfigError
from isthmus.model.links.transform import (
    Decoding,
    OnError,
    PartAssignment,
    RecordFormat,
    RecordFunction,
    RecordPart,
    RecordPath,
    Transform,
    parts_with_fields,
)
from isthmus.model.schemas.subjects import context_of
from isthmus.model.selection import TopicPattern

_WITHOUT_PYTHON: Final = ("where", "set", "drop", "keep", "mask", "decode")
_LATER_FORMATS: Final = (RecordFormat.PROTOBUF,)


def transforms_of(sections: tuple[TransformSection, ...], folder: str) -> tuple[Transform, ...]:
    """Return the transforms of a link, whose Python modules may be in `folder`.

    :raises ConfigError: A path, a pattern or the name of a function cannot be used.
    """
    return tuple(_transform(each, folder) for each in sections)


def reference_problems(referenced: Iterable[Path]) -> Iterator[Mistake]:
    """Yield the texts of transforms that come from outside the file: they may be secrets, and plans, Spark's UI and
    the ledger show transforms.
    """
    for path in sorted(referenced, key=str):
        if path[:1] == ("links",) and path[2:3] == ("transform",):
            yield Mistake(
                path,
                "refers to a text outside the file, which would be shown: plans and Spark's UI show transforms",
                "Write it out if it is no secret; else have a Python function read it (python: module:function).",
            )


def written_transforms(transforms: Iterable[Transform]) -> list[dict[str, Any]]:
    """Return transforms in the form of the file."""
    return [_build_mapping(each) for each in transforms]


def _build_mapping(transform: Transform) -> dict[str, Any]:
    decode = {
        name: {
            "format": str(each.format),
            **({"fields": each.fields} if each.fields else {}),
            **({"subjects": list(each.subjects)} if each.subjects else {}),
        }
        for name, each in (("key", transform.key), ("value", transform.value))
        if each != Decoding()
    }
    given = {
        "topics": list(map(str, transform.topics)),
        "decode": decode,
        "where": transform.where,
        "set": {str(each.path): each.expression for each in transform.sets},
        "drop": list(map(str, transform.drop)),
        "keep": list(map(str, transform.keep)),
        "mask": list(map(str, transform.mask)),
        "python": None if transform.python is None else str(transform.python),
        "version": transform.version,
    }
    return {**{key: value for key, value in given.items() if value}, "on_error": str(transform.on_error)}


def offsets_of(link: LinkSection) -> Literal["same", "mapped", "auto"]:
    """Return the offsets that a link asks for: where it says nothing of them, those that its transforms need."""
    is_given = "offsets" in link.topics.model_fields_set
    return "auto" if link.transform and not is_given else link.topics.offsets


def _transform(section: TransformSection, folder: str) -> Transform:
    return Transform(
        topics=tuple(map(TopicPattern.parse, section.topics)),
        key=_decoding(section.decode.key),
        value=_decoding(section.decode.value),
        where=section.where or "",
        # Their order means nothing.
        sets=tuple(PartAssignment(RecordPath.parse(path), each) for path, each in sorted(section.set.items())),
        drop=tuple(map(RecordPath.parse, section.drop)),
        keep=tuple(map(RecordPath.parse, section.keep)),
        mask=tuple(map(RecordPath.parse, section.mask)),
        python=None if section.python is None else read_function(section.python, folder),
        version=section.version or "",
        on_error=OnError(section.on_error),
    )


def _decoding(section: DecodingSection) -> Decoding:
    return take(Decoding, section, fields=section.fields or "")


def transform_problems(path: Path, link: LinkSection) -> Iterator[Mistake]:
    """Yield what is wrong with the transforms of a link, and with what else it wants beside them."""
    for position, section in enumerate(link.transform):
        place = (*path, "transform", position)
        yield from _paths(place, section)
        yield from _decode(place, section)
        yield from _python(place, section)
        yield from _later(place, section)
        yield from _reach(place, link.transform, position)
    if link.transform and offsets_of(link) == "same":
        yield Mistake(
            (*path, "topics", "offsets"),
            "is same, and records that are changed, or left out, on the way cannot keep their offsets (transform)",
            "Leave it out, or set topics.offsets: auto or mapped (docs/transforms.md).",
        )


def _paths(place: Path, section: TransformSection) -> Iterator[Mistake]:
    found: list[tuple[Path, RecordPath]] = []
    for key, text, _ in _named_paths(section):
        where = (*place, *key)
        try:
            found.append((where, RecordPath.parse(text)))
        except ConfigError as error:
            yield Mistake(where, f"is wrong: {error.message}", error.hint)
            continue
        yield from _not_nameable(where, key[0], text, found[-1][1])
    for (first, former), (where, latter) in combinations(found, 2):
        if former.overlaps(latter) and not _may_meet(first[len(place)], former, where[len(place)]):
            yield Mistake(
                where,
                f"is {latter}, and {'that' if former == latter else former} is set, dropped or kept as well",
                "Each part of a record is named once: take one of the two out.",
            )


def _not_nameable(where: Path, key: str | int, text: str, path: RecordPath) -> Iterator[Mistake]:
    """Yield where a path names something that is not dropped, kept or masked."""
    if key == "drop" and not path.names:
        yield Mistake(
            where,
            f"is {text}, and only fields and headers can be dropped",
            f"To make it null, write set: {{{text}: 'NULL'}}."
            if text != RecordPart.TIMESTAMP
            else "A record keeps a timestamp.",
        )
    elif key in ("keep", "mask") and not path.is_field:
        yield Mistake(
            where,
            f"is {text}, and only fields of a key or a value can be {'kept' if key == 'keep' else 'masked'}",
            "Name fields, such as value.address.city; set and drop are for headers.",
        )


def _may_meet(first: str | int, former: RecordPath, second: str | int) -> bool:
    """Return whether a path may be named again: what is kept can be dropped or masked in part, and what is set in a
    key or value can be masked.
    """
    if {first, second} in ({"drop", "keep"}, {"keep", "mask"}):
        return True
    return (first, second) == ("set", "mask") and former.is_field


def _named_paths(section: TransformSection) -> Iterator[tuple[tuple[str, str | int], str, str]]:
    """Yield the keys of all paths that are named, the paths, and the expressions of those that are set."""
    for text, expression in section.set.items():
        yield ("set", text), text, expression
    for key in ("drop", "keep", "mask"):
        for number, text in enumerate(getattr(section, key)):
            yield (key, number), text, ""


def _decode(place: Path, section: TransformSection) -> Iterator[Mistake]:
    formats = {RecordPart(name): RecordFormat(getattr(section.decode, name).format) for name in ("key", "value")}
    for name in ("key", "value"):
        each: DecodingSection = getattr(section.decode, name)
        if each.fields is not None and each.format != "json":
            yield Mistake(
                (*place, "decode", name, "fields"),
                f"is of no use with format {each.format}",
                "Fields are those of json; leave it out.",
            )
        if each.subjects and not RecordFormat(each.format).has_schema:
            yield Mistake(
                (*place, "decode", name, "subjects"),
                f"is of no use with format {each.format}",
                "Subjects are those of schemas, for avro; leave it out.",
            )
        if len({context_of(subject) for subject in each.subjects}) > 1:
            yield Mistake(
                (*place, "decode", name, "subjects"),
                "names subjects of several contexts, in each of which an id means another schema",
                "Give the topics of each context a mapping of their own in transform.",
            )
    read: dict[Path, tuple[RecordPart, ...]] = {("where",): parts_with_fields(section.where or "")}
    for key, named, expression in _named_paths(section):
        with contextlib.suppress(ConfigError):
            found = RecordPath.parse(named)
            read[key] = (*parts_with_fields(expression), *((found.part,) if found.is_field else ()))
    for reading, parts in read.items():
        for part in dict.fromkeys(parts):
            if not formats[part].has_fields:
                yield Mistake(
                    (*place, *reading),
                    f"names a field of the {part}, which is not decoded: it is {formats[part]}",
                    f"Set decode: {{{part}: json}}, or avro.",
                )


def _python(place: Path, section: TransformSection) -> Iterator[Mistake]:
    if section.python is None:
        if section.version is not None:
            yield Mistake(
                (*place, "version"), "is of no use without python", "Expressions are their own version: leave it out."
            )
        return
    try:
        RecordFunction.parse(section.python)
    except ConfigError as error:
        yield Mistake((*place, "python"), f"is wrong: {error.message}", error.hint)
    for key in _WITHOUT_PYTHON:
        if key in section.model_fields_set:
            yield Mistake(
                (*place, key),
                "stands beside python, which gets records as they are and does all by itself",
                "Leave it out, and do it in the function; or write expressions in place of python.",
            )


def registry_problems(path: Path, link: LinkSection) -> Iterator[Mistake]:
    """Yield what transforms decode by schemas, for a link whose source has no schema registry."""
    for position, section in enumerate(link.transform):
        for name in ("key", "value"):
            found = RecordFormat(getattr(section.decode, name).format)
            if found.has_schema:
                yield Mistake(
                    (*path, "transform", position, "decode", name),
                    f"is {found}, and {link.source} has no schema registry, which has the schemas",
                    f"Give clusters.{link.source}.schema_registry its url, as the producers have it.",
                )


def _later(place: Path, section: TransformSection) -> Iterator[Mistake]:
    """Yield what is planned and does not exist yet."""
    for key in ("keep", "mask"):
        parts = {text.partition(".")[0] for text in getattr(section, key)}
        for part in sorted(parts & {"key", "value"}):
            if RecordFormat(getattr(section.decode, part).format).has_schema:
                yield Mistake(
                    (*place, key),
                    f"is not possible with {getattr(section.decode, part).format} yet",
                    "The schema of a record stays, so that each field needs a value: name fields in drop or set.",
                )
    for name in ("key", "value"):
        if getattr(section.decode, name).format in _LATER_FORMATS:
            yield Mistake(
                (*place, "decode", name),
                f"is {getattr(section.decode, name).format}, which is not supported yet",
                "Formats are json, avro, utf8 and none; a Python function may decode anything.",
            )


def _reach(place: Path, sections: tuple[TransformSection, ...], position: int) -> Iterator[Mistake]:
    """Yield where one transform can never come to its turn, or says nothing at all."""
    section = sections[position]
    does_something = any(getattr(section, key) for key in ("python", "where", "set", "drop", "keep", "mask"))
    if not does_something and ("decode" in section.model_fields_set or not section.topics):
        yield Mistake(
            place,
            "changes nothing",
            "Give where, set, drop, keep, mask or python. A mapping with topics alone leaves those as they are.",
        )
    if position + 1 < len(sections) and not section.topics:
        yield Mistake(
            place,
            "has no topics, so that those behind it are for none",
            "Give it topics, or write it last: the first mapping that matches a topic is for it.",
        )
