"""What the expressions of a transform see of keys and values that are decoded by the schemas of a registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from isthmus.errors import ConfigError
from isthmus.model.links.transform import RecordPart, RecordPath, Transform
from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.decoding import DecodedColumns, FormatSchema, Prepared, build_schema
from isthmus.spark.formats.types import (
    ARRAY,
    STRUCT,
    VOID,
    FieldType,
    NotDecoded,
    ReadFields,
    SchemaOrigin,
    merge_all,
    names_alike,
)
from isthmus.spark.transforms.expressions import paths_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Subjects = Mapping[str, Sequence[WriterSchema]]
"""The schemas of subjects, by their names."""
DECODED_PARTS: Final = (RecordPart.KEY, RecordPart.VALUE)
NO_SCHEMA_HINT: Final = (
    "isthmus schemas list shows the subjects. Those of topics by the usual names are looked at, TOPIC-key and "
    "TOPIC-value; others are named in decode (subjects)."
)
_T = TypeVar("_T")
_Found = Sequence[tuple[SchemaOrigin, FormatSchema]]
_Versions = Sequence[tuple[SchemaOrigin, WriterSchema]]


def subjects_of(transform: Transform, part: RecordPart, topics: Iterable[str]) -> frozenset[str]:
    """Return the subjects under which the schemas of a part are registered, for these topics of the source."""
    decoding = transform.decoding(part)
    if not decoding.format.has_schema:
        return frozenset()
    return frozenset(decoding.subjects or (f"{topic}-{part}" for topic in topics))


def all_subjects(transform: Transform, topics: Collection[str]) -> frozenset[str]:
    """Return the subjects of all parts."""
    return frozenset(each for part in DECODED_PARTS for each in subjects_of(transform, part, topics))


def resolve(
    spark: SparkSession, transform: Transform, topics: Collection[str], subjects: Subjects, registry: str
) -> Prepared:
    """Return the columns of a transform for these topics, by the schemas of their subjects; where there are none yet,
    records wait.

    :raises ConfigError: It names fields that no schema has, or that cannot be set or dropped, or schemas disagree.
    """
    versions: dict[RecordPart, _Versions] = {}
    for part in DECODED_PARTS:
        if not transform.decoding(part).format.has_schema:
            continue
        names = sorted(subjects_of(transform, part, topics))
        # The first ones of all subjects come first.
        placed = sorted(
            ((place, name, each) for name in names for place, each in enumerate(subjects.get(name, ()))),
            key=lambda one: one[:2],
        )
        if not placed:
            listed = ", ".join(names) or "any topic"
            return Prepared(transform, problem=f"{registry} has no schema for {listed} yet")
        versions[part] = [(SchemaOrigin(name, each.id), each) for _, name, each in placed]
    columns = {part: _build_columns(spark, transform, part, found) for part, found in versions.items()}
    return Prepared(transform, columns.get(RecordPart.KEY), columns.get(RecordPart.VALUE))


def set_aside(error: ConfigError) -> str:
    """Return why records of a schema wait that does not go with those that are copied, and what to do."""
    return (
        f"it does not go with the schemas that are copied: {error.message}. Give its topics a mapping of their own in "
        "transform, or change this one so that it goes with all of them."
    )


def _build_columns(spark: SparkSession, transform: Transform, part: RecordPart, versions: _Versions) -> DecodedColumns:
    wanted = transform.decoding(part).format
    found: list[tuple[SchemaOrigin, FormatSchema]] = []
    for origin, each in versions:
        try:
            found.append((origin, build_schema(each, wanted)))
        except NotDecoded as error:
            raise _mistake(f"decode.{part}", f"subject {origin.subject}: {error}") from error
    return _columns(spark, transform, part, found)


def _columns(spark: SparkSession, transform: Transform, part: RecordPart, found: _Found) -> DecodedColumns:
    wanted = ReadFields.of(path.names for path in paths_read(spark, transform) if path.part is part)
    types = _of_all(str(part), found, lambda schema: schema.type_of(wanted))
    merged = _merge_types(str(part), types)
    for names in wanted.paths():
        if not _has(merged, names):
            raise _mistake(str(part), f"{'.'.join((part, *names))} is in no schema of {_list(found)}")
    targets = [
        (each.path, _target(each.path, found, is_null=each.expression.strip().upper() == "NULL"))
        for each in transform.sets
        if each.path.part is part
    ]
    drops = tuple(path for path in transform.drop if path.part is part)
    for path in drops:
        if not any(held for _, held in _of_all(f"drop {path}", found, _dropping(path))):
            raise _mistake(f"drop {path}", f"it is in no schema of {_list(found)}")
    subjects = tuple(sorted({origin.subject for origin, _ in found}))
    alike = [names_alike([schema for _, schema in found], path.names) for path in (*dict(targets), *drops)]
    columns = DecodedColumns(
        transform.decoding(part).format, wanted, merged, tuple(targets), drops, subjects, alike=tuple(alike)
    )
    for origin, schema in found:
        if unnamed := columns.find_unnamed(schema):
            raise ConfigError(
                f"{part}.{unnamed} of {origin} is a field that is set or dropped, by another name: an alias, or other "
                "capitals. Records of that schema would keep it",
                field="transform",
                hint=f"Set or drop {part}.{unnamed} as well, or give the topics of each name a mapping of their own.",
            )
    return columns


def _dropping(path: RecordPath) -> Callable[[FormatSchema], bool]:
    return lambda schema: schema.check_drop(path.names)


def _target(path: RecordPath, found: _Found, *, is_null: bool) -> FieldType:
    if not path.names and is_null:
        # What becomes NULL as a whole needs no type.
        return FieldType(VOID)
    types = _of_all(f"set {path}", found, lambda schema: schema.type_at(path.names))
    known = [(origin, each) for origin, each in types if each is not None]
    if not known:
        raise _mistake(f"set {path}", f"it is in no schema of {_list(found)}, and the schema of a record stays")
    return _merge_types(f"set {path}", known)


def _of_all(what: str, found: _Found, ask: Callable[[FormatSchema], _T]) -> list[tuple[SchemaOrigin, _T]]:
    answers: list[tuple[SchemaOrigin, _T]] = []
    for origin, schema in found:
        try:
            answers.append((origin, ask(schema)))
        except NotDecoded as error:
            raise _mistake(what, f"{error}; in {origin}") from error
    return answers


def _merge_types(what: str, types: Sequence[tuple[SchemaOrigin, FieldType]]) -> FieldType:
    try:
        return merge_all(what, types)
    except NotDecoded as error:
        raise ConfigError(
            str(error),
            field="decode",
            hint="Give the topics of each a mapping of their own in transform. A version that no record has any more "
            "can be deleted softly in the registry: it is not looked at then.",
        ) from error


def _has(found: FieldType, path: Sequence[str]) -> bool:
    """Whether a path leads to a field. What leads into a map or a text is Spark's to judge."""
    while found.name == ARRAY:
        found = found.element
    if not path or found.name != STRUCT:
        return True
    below = next((each for name, each in found.members if name.lower() == path[0]), None)
    return below is not None and _has(below, path[1:])


def _list(found: _Found) -> str:
    return ", ".join(dict.fromkeys(origin.subject for origin, _ in found))


def _mistake(what: str, message: str) -> ConfigError:
    return ConfigError(f"{what}: {message}", field="transform", hint=NO_SCHEMA_HINT)
