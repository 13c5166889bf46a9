"""Types of fields over schemas: what holds the values of all, and which cannot go together."""

from __future__ import annotations

import pytest

from isthmus.spark.formats.types import (
    FieldType,
    NotDecoded,
    ReadFields,
    SchemaOrigin,
    merge,
    merge_all,
    struct_of,
    to_arrow,
)

INT, LONG, TEXT = FieldType("INT"), FieldType("BIGINT"), FieldType("STRING")


def orders(**members: FieldType) -> FieldType:
    return struct_of(members.items())


def test_fields_of_all_schemas_are_there() -> None:
    """In the order in which they came."""
    found = merge(orders(id=INT, inner=orders(a=TEXT)), orders(note=TEXT, inner=orders(b=INT), id=LONG))
    assert found.ddl == "STRUCT<`id`: BIGINT, `inner`: STRUCT<`a`: STRING, `b`: INT>, `note`: STRING>"


def test_a_struct_of_which_nothing_is_read_goes_with_all() -> None:
    """Records of a schema that has none of the fields that are read do not wait for ever."""
    nothing = orders(_nothing=FieldType("BOOLEAN"))
    assert merge(orders(id=INT), nothing) == merge(nothing, orders(id=INT)) == orders(id=INT)
    assert merge(nothing, nothing) == nothing


def test_a_type_holds_each_value_of_a_narrower_one() -> None:
    """Whichever comes first; a whole number of 64 bits is no double, which would round it."""
    for narrow, wide in (("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("INT", "DOUBLE")):
        assert merge(FieldType(narrow), FieldType(wide)) == merge(FieldType(wide), FieldType(narrow)) == FieldType(wide)
    with pytest.raises(NotDecoded):
        merge(LONG, FieldType("DOUBLE"))
    with pytest.raises(NotDecoded):
        merge(FieldType("DECIMAL", precision=9, scale=2), FieldType("DECIMAL", precision=9, scale=3))


def test_schemas_that_do_not_go_together_are_named() -> None:
    """The field, the subjects and the ids."""
    found = [
        (SchemaOrigin("a-value", 1), orders(id=INT)),
        (SchemaOrigin("a-value", 4), orders(inner=orders(x=INT))),
        (SchemaOrigin("b-value", 9), orders(inner=orders(x=TEXT))),
    ]
    says = r"value\.inner: x: INT and STRING: a-value \(id 4\) and b-value \(id 9\)"
    with pytest.raises(NotDecoded, match=says):
        merge_all("value", found)


def test_what_is_read_leads_to_fields() -> None:
    """The whole of one includes what lies in it; Spark does not tell capital letters from small ones."""
    wanted = ReadFields.of([["A", "b"], ["a"], ["c", "D"]])
    assert [wanted.get(name) is not None for name in ("a", "C", "d")] == [True, True, False]
    assert list(wanted.paths()) == [("a",), ("c", "d")]
    assert list(ReadFields.of([[]]).paths()) == [()]


def test_types_are_those_of_arrow() -> None:
    """Names in DDL are quoted."""
    found = orders(**{"a`b": FieldType("ARRAY", (("element", TEXT),)), "m": FieldType("MAP", (("element", INT),))})
    assert found.ddl == "STRUCT<`a``b`: ARRAY<STRING>, `m`: MAP<STRING, INT>>"
    assert str(to_arrow(found)) == "struct<a`b: list<element: string>, m: map<string, int32>>"
