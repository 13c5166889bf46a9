"""Results of expressions are put into records, and nothing else of a record changes."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Failure
from isthmus.model.links.transform import Decoding, PartAssignment, RecordFormat, RecordPart, RecordPath, Transform
from isthmus.spark.formats.values import Edits
from isthmus.spark.transforms.editing import Editor, ResultKind, build_fields, has_path

JSON = Decoding(format=RecordFormat.JSON)


def edit(
    value: bytes | None,
    result: object,
    *,
    sets: tuple[str, ...] = (),
    expression: str = "x",
    drop: tuple[str, ...] = (),
    keep: tuple[str, ...] = (),
    mask: tuple[str, ...] = (),
) -> Changed:
    transform = Transform(
        value=JSON,
        sets=tuple(PartAssignment(RecordPath.parse(path), expression) for path in sets),
        drop=tuple(map(RecordPath.parse, drop)),
        keep=tuple(map(RecordPath.parse, keep)),
        mask=tuple(map(RecordPath.parse, mask)),
    )
    editor = Editor(transform, [ResultKind()] * len(sets))
    return editor.edit(Record(5, 7, b"k", value, [("a", b"1")]), json.dumps(result).encode())


def value_of(changed: Changed) -> bytes | None:
    assert isinstance(changed, Record)
    return changed.value


def test_a_record_for_which_where_is_not_true_is_left_out() -> None:
    """Its result says so."""
    assert edit(b"{}", {"w": False}) is None


def test_a_record_without_a_change_keeps_its_bytes() -> None:
    """Spaces included."""
    assert value_of(edit(b'{ "a" : 1 }', {"w": True})) == b'{ "a" : 1 }'


class Broken:
    """Edits nothing."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def edit(self, data: bytes | None, edits: Edits, /) -> bytes | None:
        raise self._error


def test_whatever_is_raised_for_a_record_is_its_failure() -> None:
    """Its policy decides about it alone, and its lane tells its offset. What is no fault of it is raised."""
    transform = Transform(value=Decoding(format=RecordFormat.AVRO), drop=(RecordPath.parse("value.a"),))
    record = Record(5, 7, None, b"v", [])
    for error in (
        IndexError("1"),
        OverflowError("2"),
        struct.error("3"),
        TypeError("4"),
        KeyError("5"),
        RecursionError(),
    ):
        failure = Editor(transform, [], {RecordPart.VALUE: Broken(error)}).edit(record, b'{"w":true}')
        assert isinstance(failure, Failure)
        assert failure.record == record
    with pytest.raises(MemoryError):
        Editor(transform, [], {RecordPart.VALUE: Broken(MemoryError())}).edit(record, b'{"w":true}')


@pytest.mark.parametrize("value", [b"{", b'{"a"', b'{"a":1.5', b'{"a":1.5,', b"[" * 100_000, b'{"a":1.5} 1'])
def test_a_text_that_is_cut_off_fails(value: bytes) -> None:
    """Spark may have read fields of it all the same."""
    assert isinstance(edit(value, {"w": True, "0": "x"}, sets=("value.a",)), Failure)


def test_a_record_without_a_result_fails() -> None:
    """An expression raised an error for it, which Spark turned into NULL."""
    editor = Editor(Transform(where="x"), [])
    failure = editor.edit(Record(5, 7, None, b"v", []), None)
    assert isinstance(failure, Failure)
    assert "an expression" in failure.reason


@pytest.mark.parametrize("form", [RecordFormat.UTF8, RecordFormat.JSON])
def test_bytes_that_are_no_utf8_fail_where_they_are_to_be_a_text(form: RecordFormat) -> None:
    """Spark would read other characters in their place, and a mask would be made of those."""
    result = b'{"w":true}'
    editor = Editor(Transform(value=Decoding(format=form), where="x"), [])
    failure = editor.edit(Record(5, 7, b"\xfe", b'{"a":"\xff"}', []), result)
    assert isinstance(failure, Failure)
    assert failure.reason == "its value is no UTF-8"
    assert isinstance(editor.edit(Record(5, 7, b"\xfe", '{"a":"é"}'.encode(), []), result), Record)
    assert isinstance(editor.edit(Record(5, 7, b"\xfe", None, []), result), Record)
    as_bytes = Editor(Transform(where="x"), [])
    assert isinstance(as_bytes.edit(Record(5, 7, b"\xfe", b"\xff", []), result), Record)


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("key", True),
        ("value.a", True),
        ("value.a.b", True),
        ("value.a.c", False),
        ("value.A", False),
        ("value.n.x", False),
        ("value.a.b.c", False),
        ("headers.h", True),
        ("headers.H", False),
        ("timestamp", True),
    ],
)
def test_whether_a_record_has_a_path(path: str, *, is_there: bool) -> None:
    """Names count as they are written."""
    record = Record(5, 7, b"k", b'{"a": {"b": null}, "n": null}', [("h", None)])
    assert has_path(record, RecordPath.parse(path)) is is_there
    assert has_path(record._replace(key=None, value=None), RecordPath.parse(path)) is (path[0] in "ht" and is_there)
    assert not has_path(record._replace(value=b"{"), RecordPath.parse("value.a"))


def test_a_value_that_is_no_json_fails() -> None:
    """The failure has the record as it came."""
    failure = edit(b"{", {"corrupt": "value"})
    assert isinstance(failure, Failure)
    assert failure.record.value == b"{"


def test_fields_are_set_added_and_dropped() -> None:
    """Others stay, in their order."""
    changed = edit(
        b'{"a":{"b":1},"c":2}', {"w": True, "0": "x", "1": [1]}, sets=("value.a.b", "value.d"), drop=("value.c",)
    )
    assert value_of(changed) == b'{"a":{"b":"x"},"d":[1]}'


@pytest.mark.parametrize("number", ["7", "1.50"])
def test_a_path_alone_copies_a_field_as_it_stands(number: str) -> None:
    """A number stays one, an object too, and what is not there is not copied."""
    text = f'{{"a":{number},"b":{{"c":[1]}},"d":"old"}}'.encode()
    for path, copy in (("value.a", number), ("value.b", '{"c":[1]}'), ("value.b.c", "[1]"), ("value.x", '"old"')):
        changed = value_of(edit(text, {"w": True, "0": "as text"}, sets=("value.d",), expression=path))
        assert changed == text.replace(b'"old"', copy.encode())


def test_with_types_a_path_is_an_expression_like_others() -> None:
    """The types that are given say what it becomes."""
    transform = Transform(
        value=Decoding(format=RecordFormat.JSON, fields="a STRING"),
        sets=(PartAssignment(RecordPath.parse("value.b"), "value.a"),),
    )
    changed = Editor(transform, [ResultKind()]).edit(Record(0, 0, None, b'{"a":1}', []), b'{"w":true,"0":"1"}')
    assert value_of(changed) == b'{"a":1,"b":"1"}'


@pytest.mark.parametrize("number", ["7", "1.50"])
def test_only_kept_fields_stay_and_set_adds_to_them(number: str) -> None:
    """Below a field as well; what is kept and is not there stays away."""
    text = f'{{"a":{number},"b":{{"c":1,"d":2}},"e":3,"f":null}}'.encode()
    keep = ("value.a", "value.b.c", "value.f.g", "value.x")
    changed = value_of(edit(text, {"w": True, "0": "new"}, sets=("value.e",), keep=keep))
    assert changed is not None
    assert json.loads(changed) == {"a": float(number), "b": {"c": 1}, "e": "new", "f": None}
    assert f'"a":{number}'.encode() in changed


@pytest.mark.parametrize("number", ["7", "1.50"])
def test_masked_fields_get_the_empty_value_of_their_type(number: str) -> None:
    """null stays null, and a missing field stays away; others keep their digits."""
    text = f'{{"n":{number},"t":"x","b":true,"l":[1],"o":{{"a":1}},"z":null,"k":{number}}}'.encode()
    masked = (*(f"value.{name}" for name in "ntbloz"), "value.missing")
    changed = value_of(edit(text, {"w": True}, mask=masked))
    assert changed is not None
    assert json.loads(changed) == {
        "n": 0,
        "t": "",
        "b": False,
        "l": [],
        "o": {},
        "z": None,
        "k": float(number),
    }
    assert f'"k":{number}'.encode() in changed


def test_what_is_set_can_be_masked() -> None:
    """It is masked behind that: a copy keeps its type, and loses its content."""
    changed = edit(b'{"a":12}', {"w": True, "0": "12"}, sets=("value.b",), expression="value.a", mask=("value.b",))
    assert value_of(changed) == b'{"a":12,"b":0}'


def test_a_field_below_one_that_is_not_there_is_neither_set_nor_dropped() -> None:
    """No object is made up around it."""
    changed = edit(b'{"a":null}', {"w": True, "0": 1}, sets=("value.a.b",), drop=("value.x.y",))
    assert value_of(changed) == b'{"a":null}'


def test_a_field_of_what_is_no_object_fails_for_the_record_alone() -> None:
    """A list has no fields."""
    assert isinstance(edit(b'{"a":[1]}', {"w": True, "0": 1}, sets=("value.a.b",)), Failure)


def test_a_tombstone_stays_a_tombstone_where_fields_are_set() -> None:
    """It has no fields."""
    assert value_of(edit(None, {"w": True, "0": 1}, sets=("value.a",))) is None


def test_headers_are_set_replaced_and_removed() -> None:
    """NULL removes one."""
    changed = edit(b"{}", {"w": True, "0": "2", "1": None}, sets=("headers.a", "headers.b"))
    assert isinstance(changed, Record)
    assert changed.headers == [("a", b"2")]
    removed = edit(b"{}", {"w": True}, drop=("headers.a",))
    assert isinstance(removed, Record)
    assert removed.headers == []


def test_a_timestamp_that_is_null_fails() -> None:
    """A record has to have one."""
    assert isinstance(edit(b"{}", {"w": True, "0": None}, sets=("timestamp",)), Failure)
    changed = edit(b"{}", {"w": True, "0": 99}, sets=("timestamp",))
    assert isinstance(changed, Record)
    assert changed.timestamp == 99


def test_bytes_come_in_base64() -> None:
    """JSON has none."""
    transform = Transform(sets=(PartAssignment(RecordPath.parse("key"), "x"),))
    changed = Editor(transform, [ResultKind(is_binary=True)]).edit(
        Record(0, 0, None, b"v", []), b'{"w":true,"0":"/w=="}'
    )
    assert isinstance(changed, Record)
    assert changed.key == b"\xff"


@pytest.mark.parametrize(
    "text", ['{"n": 1.10, "a" : 1}', '{"a":1,"n":12345678901234567890.123456789}', '{"n":1.0E+3 , "a":0}']
)
def test_numbers_that_a_float_would_change_keep_their_digits(text: str) -> None:
    """Only the named field changes."""
    changed = value_of(edit(text.encode(), {"w": True, "0": "x"}, sets=("value.a",)))
    assert changed is not None
    number = text.split('"n":')[1].split(",")[0].strip(" }")
    assert number.encode() in changed
    assert json.loads(changed)["a"] == "x"


@pytest.mark.parametrize("number", ["1", "1.5"])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('{"a":"plain","n":N,"a":"last"}', {"sets": ("value.a",)}),
        ('{"b":{"a":"plain"},"n":N,"b":{"a":"last"}}', {"sets": ("value.b.a",)}),
        ('{"b":{"a":"plain"},"n":N,"b":null}', {"sets": ("value.b.a",)}),
        ('{"b":{"a":"plain"},"n":N,"b":{"a":"last"}}', {"drop": ("value.b.a",)}),
    ],
)
def test_a_field_that_is_there_twice_leaves_nothing_behind(text: str, options: dict[str, Any], number: str) -> None:
    """The last one counts for readers of JSON, and for expressions; the first one may hold what is to be masked."""
    changed = value_of(edit(text.replace("N", number).encode(), {"w": True, "0": "x"}, **options))
    assert changed is not None
    assert b"plain" not in changed
    assert b"last" not in changed


@pytest.mark.parametrize("path", ["value.b", "headers.b", "key"])
def test_a_result_keeps_all_of_its_digits(path: str) -> None:
    """A float has fewer than a DECIMAL of Spark."""
    transform = Transform(value=JSON, sets=(PartAssignment(RecordPath.parse(path), "x"),))
    result = b'{"w":true,"0":12345678901234567890.1234567890}'
    changed = Editor(transform, [ResultKind()]).edit(Record(0, 0, None, b'{"a":1}', []), result)
    assert isinstance(changed, Record)
    assert b"12345678901234567890.1234567890" in b"".join(
        each or b"" for each in (changed.key, changed.value, *(held for _, held in changed.headers))
    )


def test_half_of_a_surrogate_pair_stays_escaped() -> None:
    """JSON may have it, UTF-8 may not."""
    changed = value_of(edit(b'{"a":"\\ud83d","b":1}', {"w": True, "0": 2}, sets=("value.b",)))
    assert changed == b'{"a":"\\ud83d","b":2}'


def test_what_is_nested_too_deeply_fails_for_the_record_alone() -> None:
    """Spark reads deeper than Python."""
    nested = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b',"b":1}'
    assert isinstance(edit(nested, {"w": True, "0": 2}, sets=("value.b",)), Failure)


def test_what_follows_an_object_is_not_passed_on() -> None:
    """Spark does not look at it: it would not be changed."""
    assert isinstance(edit(b'{"a":1.5} {"a":"plain"}', {"w": True, "0": 2}, sets=("value.a",)), Failure)


def test_a_record_of_no_time_fails_where_the_time_is_read() -> None:
    """Kafka takes any number, as of producers that count in nanoseconds."""
    record = Record(0, 1_700_000_000_000_000_000, None, b"v", [])
    editor = Editor(Transform(where="timestamp > now()"), [], reads_time=True)
    assert isinstance(editor.edit(record, b'{"w":true}'), Failure)
    assert Editor(Transform(where="key IS NULL"), []).edit(record, b'{"w":true}') is record


names = st.sampled_from(["a", "b", "c"])
leaves = st.one_of(
    st.integers(),
    st.text(max_size=3),
    st.none(),
    st.booleans(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
)
documents = st.dictionaries(names, st.one_of(leaves, st.dictionaries(names, leaves, max_size=3)), max_size=3)


def write(document: Any) -> str:
    """Write JSON with decimals as they are."""
    if isinstance(document, dict):
        return "{" + " , ".join(f"{json.dumps(name)} :{write(held)}" for name, held in document.items()) + "}"
    return str(document) if isinstance(document, Decimal) else json.dumps(document)


@given(
    documents,
    st.sampled_from(["a", "b.a", "c.b", "d"]),
    leaves.filter(lambda each: not isinstance(each, Decimal)),
    st.booleans(),
)
def test_any_document_changes_in_the_named_field_alone(document: Any, path: str, new: Any, is_drop: bool) -> None:
    """Whatever it is, and however it is written."""
    names = path.split(".")
    parent: Any = document
    for name in names[:-1]:
        parent = parent.get(name) if isinstance(parent, dict) else parent
    options: dict[str, Any] = {"drop": (f"value.{path}",)} if is_drop else {"sets": (f"value.{path}",)}
    changed = edit(write(document).encode(), {"w": True, "0": new}, **options)
    if parent is not None and not isinstance(parent, dict):
        assert isinstance(changed, Failure)
        return
    if parent is not None and is_drop:
        parent.pop(names[-1], None)
    elif parent is not None:
        parent[names[-1]] = new
    written = value_of(changed)
    assert written is not None
    assert json.loads(written, parse_float=Decimal) == json.loads(write(document), parse_float=Decimal)


def test_fields_that_are_read_are_texts_where_no_types_are_given() -> None:
    """As they stand in the JSON text."""
    paths = [RecordPath.parse(each) for each in ("value.a", "value.b.c", "value.b.d", "key.x", "value")]
    assert build_fields(paths, RecordPart.VALUE) == "`a` STRING, `b` STRUCT<`c`: STRING, `d`: STRING>"
