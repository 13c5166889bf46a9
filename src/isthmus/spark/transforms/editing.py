"""Puts the results of expressions into records: parts, fields of JSON texts and headers. Pure.

The expressions of a transform were evaluated elsewhere (`pipe`); their results come as one JSON object for each record,
in which "w" says whether the record is copied and a number is the result of that assignment.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Failure
from isthmus.model.links.transform import RecordPart, RecordPath, Transform

KEPT: Final = "w"
"""The member of a result that says whether the record is copied."""
CORRUPT: Final = "corrupt"
"""The only member of the result of a record that cannot be decoded: which part of it."""
_INEXACT: Final = re.compile(r"[0-9][.eE]")
_COMPACT: Final = (",", ":")


class ResultKind(NamedTuple):
    """How the result of an expression stands in JSON: bytes are in base64, and texts are no JSON of their own."""

    is_binary: bool = False


class Editor:
    """Edits the records of one transform. `kinds` are those of the results of its assignments, in their order."""

    def __init__(self, transform: Transform, kinds: Sequence[ResultKind]) -> None:
        self._sets = [(each.path, kind.is_binary) for each, kind in zip(transform.sets, kinds, strict=True)]
        self._drops = transform.drop
        self._formats = {RecordPart.KEY: transform.key.format, RecordPart.VALUE: transform.value.format}
        self._edits = bool(self._sets or self._drops)

    def edit(self, record: Record, result: bytes | None) -> Changed:
        """Return what becomes of a record by the results for it, `None` if an expression failed for it."""
        if result is None:
            return Failure(record, "an expression of the transform failed for it")
        found: Mapping[str, Any] = json.loads(result)
        if CORRUPT in found:
            return Failure(record, f"its {found[CORRUPT]} is no JSON with these fields")
        if not found[KEPT]:
            return None
        if not self._edits:
            return record
        try:
            return self._edit(record, found)
        except ValueError as error:
            return Failure(record, str(error))

    def _edit(self, record: Record, found: Mapping[str, Any]) -> Record:
        fields: dict[RecordPart, list[tuple[tuple[str, ...], Any]]] = {}
        headers = record.headers
        changed: dict[str, Any] = {}
        for number, (path, is_binary) in enumerate(self._sets):
            given = found.get(str(number))
            if path.is_field:
                fields.setdefault(path.part, []).append((path.names, given))
                continue
            data = _to_bytes(given, is_binary=is_binary)
            if path.part is RecordPart.HEADERS:
                headers = _set_header(headers, path.names[0], data)
            elif path.part is RecordPart.TIMESTAMP:
                if given is None:
                    raise ValueError("its new timestamp is NULL")
                changed["timestamp"] = int(given)
            else:
                changed[path.part.value] = data
        for path in self._drops:
            if path.part is RecordPart.HEADERS:
                headers = [each for each in headers if each[0] != path.names[0]]
            else:
                fields.setdefault(path.part, []).append((path.names, _GONE))
        for part, edits in fields.items():
            changed[part.value] = _edit_json(getattr(record, part.value), edits)
        return record._replace(headers=headers, **changed)


class _Gone:
    """The place of a field that is dropped."""


_GONE: Final = _Gone()


def _to_bytes(given: Any, *, is_binary: bool) -> bytes | None:
    if given is None:
        return None
    if is_binary:
        return base64.b64decode(given)
    return (given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, separators=_COMPACT)).encode()


def _set_header(
    headers: Iterable[tuple[str, bytes | None]], name: str, value: bytes | None
) -> list[tuple[str, bytes | None]]:
    """Return the headers with this one at their end, and no other of its name; without it if the value is NULL."""
    kept = [each for each in headers if each[0] != name]
    return kept if value is None else [*kept, (name, value)]


def _edit_json(data: bytes | None, edits: Sequence[tuple[tuple[str, ...], Any]]) -> bytes | None:
    """Set and drop fields of a JSON object; a tombstone has none, and stays one.

    :raises ValueError: It is no JSON object.
    """
    if data is None:
        return None
    text = data.decode()
    # A number with a fraction may have more digits than a float keeps: such a text is edited in place.
    if _INEXACT.search(text) is not None:
        for names, given in edits:
            text = _splice(text, names, given)
        return text.encode()
    document = json.loads(text)
    for names, given in edits:
        _set_field(document, names, given)
    return json.dumps(document, ensure_ascii=False, separators=_COMPACT).encode()


def _set_field(document: Any, names: Sequence[str], given: Any) -> None:
    *way, last = names
    for name in way:
        document = _object(document).get(name)
        if document is None:
            # What is not there has no field to set or to drop.
            return
    if given is _GONE:
        _object(document).pop(last, None)
    else:
        _object(document)[last] = given


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


def _splice(text: str, names: Sequence[str], given: Any, begin: int | None = None) -> str:
    """Set or drop one field of a JSON text, and leave every other character as it is."""
    members, close = _members(text, _skip(text, 0) if begin is None else begin)
    # Of equal names the last one counts.
    found = next((each for each in reversed(members) if each.name == names[0]), None)
    if len(names) > 1:
        if found is None or text[found.value_begin : found.value_end] == "null":
            return text
        return _splice(text, names[1:], given, found.value_begin)
    if given is not _GONE:
        written = json.dumps(given, ensure_ascii=False, separators=_COMPACT)
        if found is not None:
            return text[: found.value_begin] + written + text[found.value_end :]
        comma = "," if members else ""
        return f"{text[:close]}{comma}{json.dumps(names[0], ensure_ascii=False)}:{written}{text[close:]}"
    if found is None:
        return text
    place = members.index(found)
    if place + 1 < len(members):
        cut = text[: found.begin] + text[members[place + 1].begin :]
    else:
        cut = text[: members[place - 1].value_end if place else found.begin] + text[found.value_end :]
    return _splice(cut, names, given, begin)


def build_fields(paths: Iterable[RecordPath], part: RecordPart) -> str:
    """Return the DDL of the fields of a JSON text that are read, each as a text, where no types are given."""
    tree: dict[str, Any] = {}
    for path in paths:
        if path.part is part and path.names:
            node = tree
            for name in path.names:
                node = node.setdefault(name, {})
    return ", ".join(_ddl(name, node, is_top=True) for name, node in tree.items())


def _ddl(name: str, node: Mapping[str, Any], *, is_top: bool) -> str:
    quoted = "`" + name.replace("`", "``") + "`"
    inner = ", ".join(_ddl(each, below, is_top=False) for each, below in node.items())
    return f"{quoted}{' ' if is_top else ': '}{f'STRUCT<{inner}>' if node else 'STRING'}"
