"""What the expressions of a transform see of keys and values that are decoded by the schemas of a registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from isthmus.errors import ConfigError
from isthmus.model.links.transform import RecordPart, RecordPath, Transform
from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.decoding import DecodedColumns, FormatSchema, Prepared, build_schema
from isthmus.spark.formats.types import ARRAY, STRUCT, VOID, FieldType, NotDecoded, ReadFields, SchemaOrigin, merge_all
from isthmus.spark.transforms.expressions import paths_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Subjects = Mapping[str, Sequence[WriterSchema]]
"""The schemas of subjects, by their names."""
_PARTS: Final = (RecordPart.KEY, RecordPart.VALUE)
NO_SCHEMA_HINT: Final = (
    "isthmus schemas list shows the subjects. Those of topics by the usual names are looked at, TOPIC-key and "
    "TOPIC-value; others are named in decode (subjects)."
)
_T = TypeVar("_T")
_Found = Sequence[tuple[SchemaOrigin, FormatSchema]]


def subjects_of(transform: Transform, part: RecordPart, topics: Iterable[str]) -> frozenset[str]:
    """Return the subjects under which the schemas of a part are registered, for these topics of the source."""
    decoding = transform.decoding(part)
    if not decoding.format.has_schema:
        return frozenset()
    return frozenset(decoding.subjects or (f"{topic}-{part}" for topic in topics))


def all_subjects(transform: Transform, topics: Collection[str]) -> frozenset[str]:
    """Return the subjects of all parts."""
    return frozenset(each for part in _PARTS for each in subjects_of(transform, part, topics))


def resolve(
    spark: SparkSession, transform: Transform, topics: Collection[str], subjects: Subjects, registry: str
) -> Prepared:
    """Return the columns of a transform for these topics, by the schemas of their subjects; where there are none yet,
    records wait.

    :raises ConfigError: It names fields that no schema has, or that cannot be set or dropped, or schemas disagree.
    :raises HostError: A library for a format is not installed.
    """
    columns: dict[RecordPart, DecodedColumns] = {}
    for part in _PARTS:
        names = sorted(subjects_of(transform, part, topics))
        if not transform.decoding(part).format.has_schema:
            continue
        found = _build_all(transform, part, {name: subjects.get(name, ()) for name in names})
        if not found:
            listed = ", ".join(names) or "any topic"
            return Prepared(transform, problem=f"{registry} has no schema for {listed} yet")
        columns[part] = _columns(spark, transform, part, found)
    return Prepared(transform, columns.get(RecordPart.KEY), columns.get(RecordPart.VALUE))


def _build_all(transform: Transform, part: RecordPart, subjects: Subjects) -> _Found:
    wanted = transform.decoding(part).format
    found: list[tuple[SchemaOrigin, FormatSchema]] = []
    for subject, versions in subjects.items():
        for each in versions:
            try:
                found.append((SchemaOrigin(subject, each.id), build_schema(each, wanted)))
            except NotDecoded as error:
                raise _mistake(f"decode.{part}", f"subject {subject}: {error}") from error
    return found


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
    return DecodedColumns(transform.decoding(part).format, wanted, merged, tuple(targets), drops, subjects)


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
