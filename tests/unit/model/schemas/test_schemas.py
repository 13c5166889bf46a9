"""Schemas are told apart by what they mean; subjects are named by templates, and end as they did."""

from __future__ import annotations

import pytest

from isthmus.errors import ConfigError
from isthmus.model.naming import NameTemplate
from isthmus.model.schemas.content import Schema, SchemaReference, SchemaSettings
from isthmus.model.schemas.forms import normal_form
from isthmus.model.schemas.subjects import SubjectNaming, context_of, logical_name, qualify

LONG = NameTemplate.parse("{tenant}-{instance}-{environment}-{topic}")
SHORT = NameTemplate.parse("{tenant}-{environment}-{topic}")


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("acme-a-live-orders-value", "acme-live-orders-value"),
        ("acme-a-live-orders-key", "acme-live-orders-key"),
        ("acme-a-live-orders-com.acme.Order", "acme-live-orders-com.acme.Order"),
        ("com.acme.Order", "com.acme.Order"),
        ("-value", "-value"),
    ],
)
def test_subjects_are_translated_and_end_as_they_did(subject: str, expected: str) -> None:
    """The topic within a subject is named as in the other registry; names of records alone stay."""
    assert SubjectNaming.of(LONG, SHORT).translate(subject) == expected


def test_a_suffix_is_no_part_of_the_last_placeholder() -> None:
    """Where the topic does not come last its suffix is still behind all."""
    naming = SubjectNaming.of(LONG, NameTemplate.parse("{topic}.{environment}"))
    assert naming.translate("acme-a-live-orders-value") == "orders.live-value"


def test_registries_without_templates_have_the_same_names() -> None:
    """One without a template has the primary's names; a template for one alone is about whole topics."""
    settings = SchemaSettings(primary="east", templates={"west": NameTemplate.parse("copy-{topic}")})
    assert settings.naming("north").translate("orders-value") == "orders-value"
    assert settings.naming("west").translate("orders-value") == "copy-orders-value"


def test_a_template_cannot_ask_for_more_than_there_is() -> None:
    """What the primary's names do not hold cannot be made of them."""
    with pytest.raises(ConfigError, match="instance"):
        SubjectNaming.of(SHORT, LONG)


def test_users_see_the_logical_name() -> None:
    """The topic alone, without what the template puts around it."""
    assert logical_name("acme-a-live-orders-value", LONG) == "orders"
    assert logical_name("orders-value", None) == "orders"
    assert logical_name("com.acme.Order", LONG) == "com.acme.Order"


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("AVRO", '{"type": "string"}', '"string"'),
        (
            "AVRO",
            '{"type":"record","name":"A","namespace":"n","fields":[{"name":"b","type":{"type":"array","items":"B"}}]}',
            '{"fields": [{"type": {"items": "n.B", "type": "array"}, "name": "b"}], "name": "n.A", "type": "record"}',
        ),
        ("AVRO", '["null", {"type": "int"}]', '["null","int"]'),
        ("JSON", '{"type": "object", "title": "x"}', '{"title":"x","type":"object"}'),
        (
            "PROTOBUF",
            "syntax = 'proto3'; // a comment\nmessage M { string x = 1; }",
            'syntax = "proto3";\n\nmessage M {\n  /* why */ string x = 1;\n}',
        ),
    ],
)
def test_texts_that_mean_the_same(kind: str, one: str, other: str) -> None:
    """White space, comments, the order of keys and short names make no difference."""
    assert Schema(text=one, type=kind).is_like(Schema(text=other, type=kind))


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("AVRO", '"string"', '"bytes"'),
        ("AVRO", '{"type":"int","logicalType":"date"}', '"int"'),
        ("AVRO", '{"type":"record","name":"A","fields":[]}', '{"type":"record","name":"n.A","fields":[]}'),
        ("JSON", '{"type":"string"}', '"string"'),
        (
            "PROTOBUF",
            'message M { string x = 1 [json_name = "//a"]; }',
            'message M { string x = 1 [json_name = "b"]; }',
        ),
    ],
)
def test_texts_that_do_not(kind: str, one: str, other: str) -> None:
    """What a reader would notice makes a difference."""
    assert not Schema(text=one, type=kind).is_like(Schema(text=other, type=kind))


def test_references_are_part_of_a_schema() -> None:
    """The same text with other references is another schema; their order says nothing."""
    first, second = SchemaReference("a", "s", 1), SchemaReference("b", "t", 1)
    both = Schema(text='"x"', references=(first, second))
    assert both.is_like(Schema(text='"x" ', references=(second, first)))
    assert not both.is_like(Schema(text='"x"', references=(first,)))


def test_what_cannot_be_read_is_compared_as_it_is() -> None:
    """A text that is no schema is only like itself."""
    assert normal_form("AVRO", "{not json") == "{not json"
    assert normal_form("AVRO", '{"type":"record","name":"A","fields":"none"}') != ""


@pytest.mark.parametrize(
    ("subject", "context"),
    [("orders-value", ""), (":.c:orders-value", ":.c:"), (":.:orders-value", ""), (":.c", ""), (":", ""), ("", "")],
)
def test_contexts_of_subjects(subject: str, context: str) -> None:
    """A subject that another one refers to is of the same context, unless it names its own."""
    assert context_of(subject) == context
    assert qualify("a", context) == f"{context}a"
    assert qualify(":.d:a", context) == ":.d:a"
