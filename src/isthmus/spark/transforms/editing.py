"""Puts the results of expressions into records: parts, fields of JSON texts and headers. Pure.

The expressions of a transform were evaluated elsewhere (`pipe`); their results come as one JSON object for each record,
in which "w" says whether the record is copied and a number is the result of that assignment.
"""

from __future__ import annotations

import base64
import enum
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Failure
from isthmus.model.links.transform import RecordFormat, RecordPart, RecordPath, Transform
from isthmus.spark.formats.values import DROPPED, Edits

KEPT: Final = "w"
"""The member of a result that says whether the record is copied."""
CORRUPT: Final = "corrupt"
"""The only member of the result of a record that cannot be decoded: which part of it."""
_TEXTS: Final = frozenset({RecordFormat.UTF8, RecordFormat.JSON})
_INEXACT: Final = re.compile(r"[0-9][.eE]")
_DECODED: Final = (RecordPart.KEY, RecordPart.VALUE)
_COMPACT: Final = (",", ":")
_NULL: Final = "null"
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
"""The first ms of the year 1 and the last of the year 9999, since 1970 in UTC."""


class ResultKind(NamedTuple):
    """How the result of an expression stands in JSON: bytes are in base64, and texts are no JSON of their own. One that
    becomes a field of a part that `has_schema` is `cast` to its type, if that is given, and is a JSON text in a text.
    """

    is_binary: bool = False
    has_schema: bool = False
    cast: str = ""


class SchemaEditor(Protocol):
    """Edits a part by the schemas that its records were written with."""

    def edit(self, data: bytes | None, edits: Edits, /) -> bytes | None: ...


class Editor:
    """Edits the records of one transform. `kinds` are those of the results of its assignments, in their order.
    `schemas` edit the parts that have schemas.

    If it `reads_time`, records whose timestamp is no time of Spark's fail.
    """

    def __init__(
        self,
        transform: Transform,
        kinds: Sequence[ResultKind],
        schemas: Mapping[RecordPart, SchemaEditor] | None = None,
        *,
        reads_time: bool = False,
    ) -> None:
        self._schemas = schemas or {}
        self._sets = [
            (each.path, kind, each.copied if transform.is_copy(each) and not kind.has_schema else None)
            for each, kind in zip(transform.sets, kinds, strict=True)
        ]
        self._drops = transform.drop
        self._kept = {part: tree for part in _DECODED if (tree := _tree(transform.keep, part))}
        self._masked = transform.mask
        self._edits = bool(self._sets or self._drops or self._kept or self._masked)
        self._reads_time = reads_time
        formats = {RecordPart.KEY: transform.key.format, RecordPart.VALUE: transform.value.format}
        self._texts = [part.value for part, known in formats.items() if known in _TEXTS]

    def edit(self, record: Record, result: bytes | None) -> Changed:
        """Return what becomes of a record by the results for it, `None` if an expression failed for it."""
        try:
            return self._change(record, result)
        except RecursionError:
            return Failure(record, "it is nested too deeply")
        except ValueError as error:
            return Failure(record, str(error))
        except MemoryError:
            # No fault of the record.
            raise
        except Exception as error:  # noqa: BLE001 - its policy decides about it, and others go on
            return Failure(record, f"it cannot be changed: {type(error).__name__}: {error}")

    def _change(self, record: Record, result: bytes | None) -> Changed:
        if self._reads_time and not is_time(record.timestamp):
            return Failure(record, f"its timestamp {record.timestamp} lies before the year 1 or after the year 9999")
        for part in self._texts:
            if not _is_text(getattr(record, part)):
                # Spark would go on with other characters in place of these bytes.
                return Failure(record, f"its {part} is no UTF-8")
        if result is None:
            return Failure(record, "an expression of the transform failed for it")
        found = _read_result(result)
        if CORRUPT in found:
            return Failure(record, f"its {json.loads(found[CORRUPT])} is no JSON with these fields")
        if found[KEPT] != "true":
            return None
        return self._edit(record, found) if self._edits else record

    def _edit(self, record: Record, found: Mapping[str, str]) -> Record:
        headers = record.headers
        changed: dict[str, Any] = {}
        for number, (path, kind, _) in enumerate(self._sets):
            if path.is_field or kind.has_schema:
                continue
            given = found.get(str(number), _NULL)
            data = _to_bytes(given, is_binary=kind.is_binary)
            if path.part is RecordPart.HEADERS:
                headers = _set_header(headers, path.names[0], data)
            elif path.part is RecordPart.TIMESTAMP:
                if given == _NULL:
                    raise ValueError("its new timestamp is NULL")
                changed["timestamp"] = int(given)
            else:
                changed[path.part.value] = data
        for path in self._drops:
            if path.part is RecordPart.HEADERS:
                headers = [each for each in headers if each[0] != path.names[0]]
        for part, edits in self._field_edits(record, found).items():
            data, by_schema = getattr(record, part.value), self._schemas.get(part)
            if by_schema is None:
                changed[part.value] = _edit_json(data, edits, self._kept.get(part))
            else:
                changed[part.value] = by_schema.edit(data, _nest(edits))
        return record._replace(headers=headers, **changed)

    def _field_edits(self, record: Record, found: Mapping[str, str]) -> Mapping[RecordPart, Sequence[_Edit]]:
        """Return what becomes of fields, in order, by the part that they are in."""
        fields: dict[RecordPart, list[_Edit]] = {part: [] for part in self._kept}
        for number, (path, kind, copied) in enumerate(self._sets):
            if path.is_field or kind.has_schema:
                given: str | None = found.get(str(number), _NULL)
                if kind.has_schema:
                    given = json.loads(found[str(number)])
                elif copied is not None:
                    given = _find_json(getattr(record, copied.part.value), copied.names)
                # What is not there is not copied.
                if given is not None:
                    fields.setdefault(path.part, []).append((path.names, given))
        for paths, fate in ((self._drops, _GONE), (self._masked, _EMPTY)):
            for path in paths:
                if path.is_field:
                    fields.setdefault(path.part, []).append((path.names, fate))
        return fields


class _Fate(enum.Enum):
    """What becomes of a field that gets no value of its own."""

    GONE = enum.auto()
    EMPTY = enum.auto()
    """The empty value of its type; null stays null, and what is not there stays away."""


_GONE: Final = _Fate.GONE
_EMPTY: Final = _Fate.EMPTY
_Edit = tuple[tuple[str, ...], "str | _Fate"]
_Tree = Mapping[str, Any]
"""Fields by name, each with the fields below it that are meant; all of it if there are none."""


def _nest(edits: Iterable[_Edit]) -> Edits:
    """Return what becomes of fields by their names, level by level."""
    found: dict[str, Any] = {}
    for names, given in edits:
        if isinstance(given, str) and not names:
            return given
        node = found
        for name in names[:-1]:
            node = node.setdefault(name, {})
        node[names[-1]] = given if isinstance(given, str) else DROPPED
    return found


def _empty_of(value: Any) -> Any:
    return None if value is None else type(value)()


def _is_text(data: bytes | None) -> bool:
    if data is None or data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_time(timestamp: int) -> bool:
    """Return whether a timestamp in ms is a time that Spark and Python know: Kafka takes any number."""
    return _FIRST_MS <= timestamp <= _LAST_MS


def _read_result(result: bytes) -> dict[str, str]:
    """Return the members of a result as the JSON texts that they are: a float would not keep all digits of a DECIMAL.

    :raises ValueError: It is no JSON object.
    """
    text = result.decode()
    return {each.name: text[each.value_begin : each.value_end] for each in _members(text, 0)[0]}


def _to_bytes(given: str, *, is_binary: bool) -> bytes | None:
    if given == _NULL:
        return None
    if is_binary:
        return base64.b64decode(json.loads(given))
    return (json.loads(given) if given.startswith('"') else given).encode()


def _set_header(
    headers: Iterable[tuple[str, bytes | None]], name: str, value: bytes | None
) -> list[tuple[str, bytes | None]]:
    """Return the headers with this one at their end, and no other of its name; without it if the value is NULL."""
    kept = [each for each in headers if each[0] != name]
    return kept if value is None else [*kept, (name, value)]


def _find_json(data: bytes | None, names: Sequence[str]) -> str | None:
    """Return the JSON text of a field as it stands, `None` if it is not there.

    :raises ValueError: It lies in something that is no JSON object.
    """
    if data is None:
        return None
    text = data.decode()
    begin = _skip(text, 0)
    end = len(text)
    for name in names:
        if text.startswith(_NULL, begin):
            return None
        found = [each for each in _members(text, begin)[0] if each.name == name]
        if not found:
            return None
        begin, end = found[-1].value_begin, found[-1].value_end
    return text[begin:end]


def _edit_json(data: bytes | None, edits: Sequence[_Edit], kept: _Tree | None = None) -> bytes | None:
    """Edit fields of a JSON object, of which only the `kept` ones stay if there are any; a tombstone has none, and
    stays one. Of equal names the last one stays.

    :raises ValueError: It is no JSON object.
    """
    if data is None:
        return None
    text = data.decode()
    # A number with a fraction may have more digits than a float keeps: such a text is edited in place.
    if any(_INEXACT.search(each) for each in (text, *(given for _, given in edits if isinstance(given, str)))):
        return _edit_text(text, edits, kept).encode()
    document = json.loads(text)
    if kept is not None:
        _prune(document, kept)
    for names, given in edits:
        _set_field(document, names, json.loads(given) if isinstance(given, str) else given)
    try:
        return json.dumps(document, ensure_ascii=False, separators=_COMPACT).encode()
    except UnicodeEncodeError:
        # JSON may escape half of a surrogate pair, which UTF-8 does not have.
        return json.dumps(document, separators=_COMPACT).encode()


def _edit_text(text: str, edits: Sequence[_Edit], kept: _Tree | None) -> str:
    if kept is not None:
        text = _prune_text(text, kept, _skip(text, 0))
    for names, given in edits:
        text = _splice(text, names, given)
    if _skip(text, _members(text, _skip(text, 0))[1] + 1) < len(text):
        raise ValueError("something follows the JSON object")
    return text


def _set_field(document: Any, names: Sequence[str], given: Any) -> None:
    *way, last = names
    for name in way:
        document = _object(document).get(name)
        if document is None:
            # What is not there has no field to set or to drop.
            return
    held = _object(document)
    if given is _GONE:
        held.pop(last, None)
    elif given is not _EMPTY:
        held[last] = given
    elif last in held:
        held[last] = _empty_of(held[last])


def _prune(document: Any, kept: _Tree) -> None:
    held = _object(document)
    for name in list(held):
        if name not in kept:
            del held[name]
        elif kept[name] and held[name] is not None:
            _prune(held[name], kept[name])


def _prune_text(text: str, kept: _Tree, begin: int) -> str:
    """Leave out members of the object that begins at `begin`, from its end on, so that places stay right."""
    for place in reversed(range(len(_members(text, begin)[0]))):
        members, _ = _members(text, begin)
        one = members[place]
        if one.name not in kept:
            text = _cut(text, members, place)
        elif kept[one.name] and not text.startswith(_NULL, one.value_begin):
            text = _prune_text(text, kept[one.name], one.value_begin)
    return text


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object where the transform names a field")
    return document


_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")


class _Member(NamedTuple):
    """A member of a JSON object in a text: where it begins, and its value."""

    name: str
    begin: int
    value_begin: int
    value_end: int


def _members(text: str, begin: int) -> tuple[list[_Member], int]:
    """Find the members of the object that begins at `begin`, and where its brace closes."""
    if text[begin : begin + 1] != "{":
        raise ValueError("it is no JSON object where the transform names a field")
    found: list[_Member] = []
    at = _skip(text, begin + 1)
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        value_begin = _skip(text, _skip(text, end) + 1)
        _, value_end = _DECODER.raw_decode(text, value_begin)
        found.append(_Member(name, at, value_begin, value_end))
        at = _skip(text, value_end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found, at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _splice(text: str, names: Sequence[str], given: str | _Fate, begin: int | None = None) -> str:
    """Set, drop or empty one field of a JSON text, and leave every other character as it is."""
    members, close = _members(text, _skip(text, 0) if begin is None else begin)
    same = [place for place, each in enumerate(members) if each.name == names[0]]
    if len(same) > 1:
        # Of equal names the last one counts. What the others hold must not stay behind: it may be what is masked.
        return _splice(_cut(text, members, same[0]), names, given, begin)
    found = members[same[0]] if same else None
    if len(names) > 1:
        if found is None or text[found.value_begin : found.value_end] == "null":
            return text
        return _splice(text, names[1:], given, found.value_begin)
    if given is _EMPTY:
        if found is None:
            return text
        given = json.dumps(_empty_of(json.loads(text[found.value_begin : found.value_end])))
    if isinstance(given, str):
        if found is not None:
            return text[: found.value_begin] + given + text[found.value_end :]
        comma = "," if members else ""
        return f"{text[:close]}{comma}{json.dumps(names[0], ensure_ascii=False)}:{given}{text[close:]}"
    return text if found is None else _cut(text, members, same[0])


def _cut(text: str, members: Sequence[_Member], place: int) -> str:
    """Cut a member out of a JSON object."""
    one = members[place]
    if place + 1 < len(members):
        return text[: one.begin] + text[members[place + 1].begin :]
    return text[: members[place - 1].value_end if place else one.begin] + text[one.value_end :]


def has_path(record: Record, path: RecordPath) -> bool:
    """Return whether a record has a part, a field of its JSON, or a header."""
    if path.part is RecordPart.TIMESTAMP:
        return True
    if path.part is RecordPart.HEADERS:
        return not path.names or any(name == path.names[0] for name, _ in record.headers)
    data: bytes | None = getattr(record, path.part.value)
    if data is None or not path.names:
        return data is not None
    try:
        return _find_json(data, path.names) is not None
    except (ValueError, IndexError, RecursionError):
        return False


def _tree(paths: Iterable[RecordPath], part: RecordPart) -> dict[str, Any]:
    """Return the fields of a part that paths name, each with those below it."""
    tree: dict[str, Any] = {}
    for path in paths:
        if path.part is part and path.names:
            node = tree
            for name in path.names:
                node = node.setdefault(name, {})
    return tree


def build_fields(paths: Iterable[RecordPath], part: RecordPart) -> str:
    """Return the DDL of the fields of a JSON text that are read, each as a text, where no types are given."""
    return ", ".join(_ddl(name, node, is_top=True) for name, node in _tree(paths, part).items())


def _ddl(name: str, node: Mapping[str, Any], *, is_top: bool) -> str:
    quoted = "`" + name.replace("`", "``") + "`"
    inner = ", ".join(_ddl(each, below, is_top=False) for each, below in node.items())
    return f"{quoted}{' ' if is_top else ': '}{f'STRUCT<{inner}>' if node else 'STRING'}"
