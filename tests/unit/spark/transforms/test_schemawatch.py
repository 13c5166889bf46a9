"""Which schemas a transform's columns are made of, if some of them do not go with its expressions."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest

from isthmus.errors import ConfigError
from isthmus.model.links.transform import Decoding, RecordFormat, RecordPath, Transform
from isthmus.model.schemas.content import Schema
from isthmus.registry.lookup import WriterSchema
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.formats.types import SchemaOrigin
from isthmus.spark.transforms import resolving, schemawatch
from isthmus.spark.transforms.schemawatch import prepare_columns

AVRO = Decoding(format=RecordFormat.AVRO)
SPARK: Any = object()


class Expressions:
    """Expressions that read these paths, in place of Spark's: none of them may be a BIGINT."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *paths: str) -> None:
        self.asked: list[Prepared] = []
        monkeypatch.setattr(schemawatch, "parsing_session", lambda spark: spark)
        monkeypatch.setattr(resolving, "paths_read", lambda *_: [RecordPath.parse(each) for each in paths])
        monkeypatch.setattr(schemawatch, "require_sound", self._require)

    def _require(self, _: object, prepared: tuple[Prepared, ...]) -> None:
        self.asked += prepared
        for each in prepared:
            if not each.problem and any("BIGINT" in columns.type.ddl for _, columns in each.decoded):
                raise ConfigError("a BIGINT does not go with it")


def schema(schema_id: int, **fields: str) -> WriterSchema:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return WriterSchema(id=schema_id, schema=Schema(text=json.dumps({"type": "record", "name": "R", "fields": listed})))


def prepare(
    subjects: dict[str, tuple[WriterSchema, ...]],
    settled: Collection[SchemaOrigin] | None = frozenset(),
    *,
    has_key: bool = False,
) -> Prepared:
    transform = Transform(key=AVRO if has_key else Decoding(), value=AVRO, where="value.n = 1")
    known = None if settled is None else frozenset(settled)
    return prepare_columns(SPARK, transform, frozenset({"a", "b"}), subjects, "the registry", known)


def aside(prepared: Prepared) -> set[int]:
    return {schema_id for _, columns in prepared.decoded for schema_id, _ in columns.aside}


@pytest.mark.parametrize("settled", [(), [SchemaOrigin("a-value", 1)]])
def test_only_culprits_are_set_aside(monkeypatch: pytest.MonkeyPatch, settled: list[SchemaOrigin]) -> None:
    """Schemas that came after a bad one are copied by, of its subject and of others; also after a restart."""
    Expressions(monkeypatch, "value.n", "value.m")
    good = (schema(1, n="int", m="int"), schema(103, n="int", m="int", x="string"))
    found = prepare(
        {
            "a-value": (good[0], schema(101, n="long", m="int"), good[1]),
            "b-value": (schema(102, n="int", m="double"), schema(104, n="int", m="float"), schema(105, n="int")),
        },
        settled,
    )
    assert aside(found) == {101}
    assert found.value is not None
    assert found.value.type.ddl == "STRUCT<`n`: INT, `m`: DOUBLE>"
    ((_, reason),) = found.value.aside
    assert "it does not go with the schemas that are copied: a BIGINT does not go with it" in reason


def test_a_bad_schema_may_be_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone waits."""
    Expressions(monkeypatch, "value.n")
    found = prepare({"a-value": (schema(1, n="long"), schema(2, n="int")), "b-value": (schema(3, n="int"),)})
    assert aside(found) == {1}


def test_fields_may_be_in_different_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """None goes with the expressions by itself, and still only the bad one waits."""
    Expressions(monkeypatch, "value.n", "value.m")
    found = prepare(
        {"a-value": (schema(2, n="int"), schema(3, n="long")), "b-value": (schema(1, o="int"), schema(4, m="int"))}
    )
    assert aside(found) == {3}


@pytest.mark.parametrize("bad", [(1,), (2,), (1, 4), (2, 3), (1, 2)])
def test_keys_and_values_are_judged_together(monkeypatch: pytest.MonkeyPatch, bad: tuple[int, ...]) -> None:
    """An expression may read both: the bad schemas of either wait."""
    Expressions(monkeypatch, "key.n", "value.n")
    kinds = {each: "long" if each in bad else "int" for each in (1, 2, 3, 4, 5, 6)}
    keys = tuple(schema(each, n=kinds[each]) for each in (1, 3, 5))
    values = tuple(schema(each, n=kinds[each]) for each in (2, 4, 6))
    assert aside(prepare({"a-key": keys, "a-value": values}, has_key=True)) == set(bad)


def test_many_bad_schemas_are_found_with_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is asked once for the same columns, however many schemas lead to them."""
    expressions = Expressions(monkeypatch, "value.n")
    bad = tuple(schema(each, n="long") for each in range(2, 62))
    found = prepare({"a-value": (schema(1, n="int"), *bad), "b-value": (schema(99, n="int"),)})
    assert aside(found) == {each.id for each in bad}
    assert len(expressions.asked) <= 4


def test_what_goes_with_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is any mistake, while nothing was copied yet."""
    Expressions(monkeypatch, "value.n")
    with pytest.raises(ConfigError, match="BIGINT"):
        prepare({"a-value": (schema(1, n="long"), schema(2, n="long"))})
    with pytest.raises(ConfigError, match="BIGINT"):
        prepare({"a-value": (schema(1, n="int"), schema(2, n="long"))}, None)


def test_an_error_of_any_kind_names_the_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema is anybody's: whatever a library raises over it, it is told as a mistake that has a way out."""

    def break_down(*_: object) -> Prepared:
        raise RecursionError("too deep\nand a trace")

    monkeypatch.setattr(schemawatch, "parsing_session", lambda spark: spark)
    monkeypatch.setattr(schemawatch, "resolve", break_down)
    with pytest.raises(ConfigError, match=r"^the schemas of a-value, b-value cannot be used: too deep$") as raised:
        prepare({"b-value": (schema(1, n="int"),), "a-value": ()})
    assert raised.value.hint == "Give the topics of other subjects a mapping of their own in transform."
    assert raised.value.field == "transform"
