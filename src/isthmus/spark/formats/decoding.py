"""Keys or values of one transform, decoded by the schemas that their records were written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from isthmus.model.links.transform import RecordFormat, RecordPart, RecordPath, Transform
from isthmus.model.schemas.gate import schema_id
from isthmus.registry.lookup import SchemaBook, WriterSchema
from isthmus.spark.formats.avro import AvroSchema
from isthmus.spark.formats.types import VOID, FieldType, NotDecoded, ReadFields, merge
from isthmus.spark.formats.values import Edits, result_of


class FormatSchema(Protocol):
    """One schema, by which records were written, in a format of its own."""

    def type_of(self, wanted: ReadFields) -> FieldType: ...
    def type_at(self, names: Sequence[str]) -> FieldType | None: ...
    def check_drop(self, names: Sequence[str]) -> bool: ...
    def fields_like(self, ways: Sequence[frozenset[str]]) -> Sequence[tuple[tuple[str, ...], frozenset[str]]]: ...
    def build_reader(self, shape: FieldType) -> Callable[[bytes], Any]: ...
    def show(self, data: bytes) -> str: ...
    def edit(self, data: bytes, edits: Edits) -> bytes | None: ...


_FORMATS: Final[Mapping[RecordFormat, Callable[[WriterSchema], FormatSchema]]] = {RecordFormat.AVRO: AvroSchema}


class DecodedColumns(NamedTuple):
    """A part of records as expressions see it: the fields that are `wanted`, of a `type`, and the types of the fields
    that are set, by their paths; `drops` are left out. The `subjects` are those of its schemas. Those in `aside` do not
    go with the others: by their ids, why and what to do. `alike` are all names of what is set or dropped.
    """

    format: RecordFormat
    wanted: ReadFields
    type: FieldType
    targets: tuple[tuple[RecordPath, FieldType], ...] = ()
    drops: tuple[RecordPath, ...] = ()
    subjects: tuple[str, ...] = ()
    aside: tuple[tuple[int, str], ...] = ()
    alike: tuple[tuple[frozenset[str], ...], ...] = ()

    def find_unnamed(self, schema: FormatSchema) -> str:
        """Return a field of a schema that has another name of one that is set or dropped, and that no path names; ""
        if there is none.
        """
        named = {path.names for path in (*(path for path, _ in self.targets), *self.drops)}
        for ways in self.alike:
            for names, _ in schema.fields_like(ways):
                if not any(names[:count] in named for count in range(len(names) + 1)):
                    return ".".join(names)
        return ""


class Prepared(NamedTuple):
    """A transform by expressions, with the columns of the parts that are decoded by schemas. If there is a `problem`,
    records have to wait: it says for what.
    """

    transform: Transform
    key: DecodedColumns | None = None
    value: DecodedColumns | None = None
    problem: str = ""

    def columns_of(self, part: RecordPart) -> DecodedColumns | None:
        """Return the columns of a part, `None` if it is not decoded by schemas."""
        return {RecordPart.KEY: self.key, RecordPart.VALUE: self.value}.get(part)

    @property
    def decoded(self) -> tuple[tuple[RecordPart, DecodedColumns], ...]:
        """The parts that are decoded by schemas."""
        both = ((RecordPart.KEY, self.key), (RecordPart.VALUE, self.value))
        return tuple((part, columns) for part, columns in both if columns is not None)


def build_schema(written: WriterSchema, wanted: RecordFormat) -> FormatSchema:
    """Build a schema of a format.

    :raises NotDecoded: It is of another format, or cannot be read.
    """
    if written.schema.type != wanted.upper():
        raise NotDecoded(f"schema {written.id} is of {written.schema.type}, and not of {wanted.upper()}")
    return _FORMATS[wanted](written)


def _check_fit(own: FieldType, wanted: FieldType) -> None:
    """Require that a type holds the values of another.

    :raises NotDecoded: It does not.
    """
    if merge(wanted, own) != wanted:
        raise NotDecoded(f"it has {own}, and that is {wanted}")


class NotNow(Exception):
    """A record cannot be decoded now, through no fault of its own."""


class _Known(NamedTuple):
    """A schema, and what decodes by it; or why not: the records' own fault, or that of the columns."""

    schema: FormatSchema | None = None
    read: Callable[[bytes], Any] | None = None
    fault: str = ""
    unfit: str = ""


class Asked(NamedTuple):
    """What a registry said of ids that have no schema: those that are `denied` have none, and why others wait."""

    denied: frozenset[int] = frozenset()
    waiting: Mapping[int, str] = MappingProxyType({})


NOTHING_ASKED: Final = Asked()


class PartDecoder:
    """Decodes and edits one part of records, by schemas that it has to `learn` first: those that it `learned` are
    there by their ids. Lanes share it: what is said of the records of one counts for these alone.
    """

    def __init__(self, part: RecordPart, columns: DecodedColumns) -> None:
        self.learned: dict[int, WriterSchema] = {}
        self._part = part
        self._columns = columns
        self._known: dict[int, _Known] = {}

    async def prepare(self, values: Iterable[bytes | None], book: SchemaBook) -> Asked:
        """Learn the schemas of these values, as far as the registry answers; return what it says of the others."""
        # In the order of records: those before the first one that has to wait go on.
        ids = dict.fromkeys(one for each in values if (one := schema_id(each)) is not None and one not in self._known)
        found = await book.find_most(ids, self._columns.subjects)
        self.learn(found.schemas)
        return Asked(found.denied, found.doubted)

    def learn(self, written: Mapping[int, WriterSchema]) -> None:
        """Learn schemas by their ids."""
        self.learned |= written
        self._known |= {one: self._know(each) for one, each in written.items()}

    def _know(self, written: WriterSchema) -> _Known:
        columns = self._columns
        if written.schema.type != columns.format.upper():
            return _Known(fault=f"schema {written.id} is of {written.schema.type}, and not of {columns.format.upper()}")
        schema: FormatSchema | None = None
        try:
            schema = build_schema(written, columns.format)
            _check_fit(schema.type_of(columns.wanted), columns.type)
            for path, target in columns.targets:
                own = schema.type_at(path.names) if path.names or target.name != VOID else None
                if own is not None:
                    _check_fit(own, target)
            for path in columns.drops:
                schema.check_drop(path.names)
            if unnamed := columns.find_unnamed(schema):
                raise NotDecoded(f"its field {unnamed} is one that is set or dropped, by another name")
            return _Known(schema, schema.build_reader(columns.type))
        except NotDecoded as error:
            why = dict(columns.aside).get(written.id) or f"it does not fit what expressions were prepared for: {error}"
            return _Known(schema, unfit=f"schema {written.id}: {why}")

    def read(self, data: bytes | None, asked: Asked = NOTHING_ASKED) -> Any:
        """Return what expressions see of a key or value, by what was `asked` for it.

        :raises ValueError: It cannot be decoded.
        :raises NotNow: Its schema cannot be asked for now, or does not fit the columns.
        """
        if data is None:
            return None
        known = self._find(data, asked)
        if known.read is None:
            raise ValueError(known.fault)
        return known.read(data)

    def show(self, data: bytes | None) -> bytes | None:
        """Return a key or value for people to read, as it is where it cannot be decoded."""
        try:
            known = None if data is None else self._known.get(schema_id(data) or 0)
            if data is None or known is None or known.schema is None:
                return data
            return f"schema {schema_id(data)}: {known.schema.show(data)}".encode()
        except Exception:  # noqa: BLE001 - whatever a library raises, there are the bytes to look at
            return data

    def _find(self, data: bytes, asked: Asked = NOTHING_ASKED) -> _Known:
        found = schema_id(data)
        if found is None:
            raise ValueError("it does not begin with a zero and the id of a schema")
        known = self._known.get(found)
        if known is None and found in asked.denied:
            raise ValueError(f"the schema registry has no schema {found}, with which it begins")
        if known is None:
            raise NotNow(f"its schema {found}: {asked.waiting.get(found, 'the registry was not asked for it yet')}")
        if known.unfit:
            raise NotNow(known.unfit)
        return known

    def edit(self, data: bytes | None, edits: Edits) -> bytes | None:
        """Return a key or value that was read with these fields set and dropped.

        :raises ValueError: A result cannot be a value of its field.
        """
        if data is None:
            if isinstance(edits, str) and result_of(edits) is not None:
                raise ValueError(f"its {self._part} is NULL, so that it has no schema to write another one by")
            return None
        known = self._find(data)
        if known.schema is None:
            raise ValueError(known.fault)
        try:
            return known.schema.edit(data, edits)
        except NotDecoded as error:
            raise ValueError(str(error)) from error


def build_decoders(prepared: Prepared) -> dict[RecordPart, PartDecoder]:
    """Build what decodes the parts of a transform that have schemas."""
    return {part: PartDecoder(part, columns) for part, columns in prepared.decoded}
