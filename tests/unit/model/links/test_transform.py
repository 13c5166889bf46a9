"""Transforms as values: paths, generations, and the topics that they are for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.errors import ConfigError
from isthmus.model.links.transform import (
    OnError,
    PartAssignment,
    RecordFunction,
    RecordPart,
    RecordPath,
    Transform,
    parts_with_fields,
    transform_for,
)
from isthmus.model.selection import TopicPattern

A_TRANSFORM = Transform(
    where="true",
    sets=(
        PartAssignment(RecordPath.parse("value.a"), "1"),
        PartAssignment(RecordPath.parse("headers.x.y"), "2"),
    ),
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("value", ()),
        ("value.address.city", ("address", "city")),
        ("key.`a.b`.c-d", ("a.b", "c-d")),
        ("headers.trace.id", ("trace.id",)),
        ("timestamp", ()),
    ],
)
def test_a_path_is_read_and_written_as_people_write_it(text: str, names: tuple[str, ...]) -> None:
    """Headers have names with dots, fields have them in backticks."""
    path = RecordPath.parse(text)

    assert path.names == names
    assert str(path) == text


@given(st.lists(st.text(st.characters(exclude_characters="`"), min_size=1, max_size=4), max_size=3))
def test_any_field_has_a_path(names: list[str]) -> None:
    """What is written is read as the same."""
    path = RecordPath(RecordPart.VALUE, tuple(names))

    assert RecordPath.parse(str(path)) == path


@pytest.mark.parametrize("text", ["", "topic", "partition", "value.", "value..a", "headers.", "Value", "timestamp.a"])
def test_what_is_no_path_is_refused_with_a_hint(text: str) -> None:
    """Records keep their topic, partition and order."""
    with pytest.raises(ConfigError) as caught:
        RecordPath.parse(text)

    assert caught.value.hint


def test_a_generation_changes_with_what_may_make_other_records_alone() -> None:
    """The order of assignments, the topics and the folder of the file do not count."""
    digest = A_TRANSFORM.digest

    function = RecordFunction.parse("rules:clean")
    by_function = Transform(python=function)
    assert replace(A_TRANSFORM, sets=A_TRANSFORM.sets[::-1]).digest == digest
    assert replace(A_TRANSFORM, topics=(TopicPattern.parse("a*"),)).digest == digest
    assert replace(by_function, python=replace(function, folder="/etc")).digest == by_function.digest
    others = [
        replace(A_TRANSFORM, where="false"),
        replace(A_TRANSFORM, on_error=OnError.SKIP),
        replace(A_TRANSFORM, drop=(RecordPath.parse("value.b"),)),
        by_function,
        replace(by_function, version="2"),
    ]
    assert len({digest, *(each.digest for each in others)}) == 1 + len(others)
    assert digest == "ac89a70fc380de88"


def test_a_mapping_that_does_nothing_takes_its_topics_out() -> None:
    """The first that matches is for a topic."""
    left = Transform(topics=(TopicPattern.parse("orders.raw"),))
    transforms = (left, replace(A_TRANSFORM, topics=(TopicPattern.parse("orders.*"),)))

    assert transform_for(transforms, "orders.raw") is None
    assert transform_for(transforms, "orders.eu") == transforms[1]
    assert transform_for(transforms, "flights") is None


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("value.country = 'DE'", (RecordPart.VALUE,)),
        ("KEY .id > 1 and value['a'] is null", (RecordPart.KEY, RecordPart.VALUE)),
        ("value:country::string = 'x'", (RecordPart.VALUE,)),
        ("sha2(value, 256) = 'value.a' -- value.b", ()),
        ("headers.value.x is null and my_value.x = 1", ()),
    ],
)
def test_fields_that_an_expression_reads_are_seen_in_its_text(expression: str, parts: tuple[RecordPart, ...]) -> None:
    """Texts, comments and other names are none."""
    assert parts_with_fields(expression) == parts
