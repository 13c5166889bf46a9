"""Single message transforms, imported, make of records what Kafka's own classes make of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Delayed, Failure, Portion
from isthmus.local.jvm import jvm_for
from isthmus.model.lane import Lane
from isthmus.model.links.transform import Transform, transform_for
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.transforms.trial import try_expressions
from testing.patience import TERM_S
from testing.values.samples import configured, imported, pair

pytestmark = pytest.mark.integration

PROGRAM: Final = Path(__file__).with_name("Smts.java")
KAFKAS: Final = "org.apache.kafka.connect.transforms"
TIME: Final = 1_757_000_000_000
Given = tuple[str, str | None, str | None, list[tuple[str, str]]]
"""The topic of a record, its key and value, and its headers."""

ORDERS: Final[list[Given]] = [
    ("orders", "k1", '{"id": "o-1", "ssn": "123", "amount": 7, "price": 1.25, "paid": true, "tags": ["a"]}', []),
    ("orders", "k2", '{"id": "o-2", "ssn": null, "amount": 0, "note": "x", "to": {"city": "Bonn", "zip": 53}}', []),
    ("orders", None, '{"id": "ü-3", "ssn": "", "price": 1e3, "empty": {}, "note": "it\\u0027s"}', [("trace", "t")]),
    ("orders", "k4", '{ "id": "o-4", "ssn": "9", "list": [1, {"a": null}], "paid": false }', [("a", "1"), ("b", "")]),
    ("audit", "k5", '{"id": "a-1", "ssn": "55", "amount": 12345678901234}', [("trace", "t"), ("trace", "u")]),
]
TOMBSTONE: Final[Given] = ("orders", "k6", None, [("trace", "gone")])


@dataclass(frozen=True, kw_only=True)
class Case:
    """A chain as people write it: its steps, and other settings."""

    chain: str
    lines: tuple[str, ...]
    records: tuple[Given, ...] = (*ORDERS, TOMBSTONE)
    key_json: bool = False

    @property
    def config(self) -> dict[str, str]:
        settings = dict(line.split("=", 1) for line in self.lines)
        types = {key: value.replace("K.", f"{KAFKAS}.") for key, value in settings.items()}
        return {"transforms": self.chain, **types}

    def for_java(self) -> dict[str, Any]:
        records = [
            {"topic": f"a.{topic}", "partition": 2, "key": key, "value": value, "headers": headers, "timestamp": TIME}
            for topic, key, value, headers in self.records
        ]
        return {"config": self.config, "records": records, "key_json": self.key_json}


UNLESS_TOMBSTONE: Final = ("predicates=gone", "predicates.gone.type=K.predicates.RecordIsTombstone")


def guarded(name: str, *lines: str) -> tuple[str, ...]:
    """A step that leaves tombstones alone, as chains of people have it: most steps fail on them."""
    prefixed = tuple(f"transforms.{name}.{line}" for line in lines)
    return (*prefixed, f"transforms.{name}.predicate=gone", f"transforms.{name}.negate=true")


def named(name: str, *lines: str) -> tuple[str, ...]:
    return tuple(f"transforms.{name}.{line}" for line in lines)


MASK: Final = guarded("mask", "type=K.MaskField$Value", "fields=ssn,amount,price,paid,tags,list")
HEADER: Final = ("predicates=h", "predicates.h.type=K.predicates.HasHeaderKey", "predicates.h.name=trace")
CASES: Final = {
    "mask": Case(chain="mask", lines=(*MASK, *UNLESS_TOMBSTONE)),
    "mask with a replacement": Case(
        chain="mask",
        lines=(*guarded("mask", "type=K.MaskField$Value", "fields=ssn,id", "replacement=it's ***"), *UNLESS_TOMBSTONE),
    ),
    "exclude": Case(chain="r", lines=named("r", "type=K.ReplaceField$Value", "exclude=ssn,note")),
    "include": Case(chain="r", lines=named("r", "type=K.ReplaceField$Value", "include=id,price,to,ssn")),
    "renames": Case(chain="r", lines=named("r", "type=K.ReplaceField$Value", "renames=amount:total,to:address,id:key")),
    "include and renames": Case(
        chain="r", lines=named("r", "type=K.ReplaceField$Value", "include=amount,ssn,id", "renames=amount:id,id:nr")
    ),
    "one field under another name": Case(
        chain="r", lines=named("r", "type=K.ReplaceField$Value", "include=amount", "renames=amount:total")
    ),
    "keys": Case(
        chain="r",
        lines=named("r", "type=K.ReplaceField$Key", "exclude=secret", "renames=n:number"),
        records=(
            ("orders", '{"n": 1, "secret": 2}', '{"a": 1.50}', []),
            ("orders", None, '{"a": 1}', []),
            ("orders", '{"other": [1]}', None, []),
        ),
        key_json=True,
    ),
    "inserted": Case(
        chain="i",
        lines=named(
            "i",
            "type=K.InsertField$Value",
            "static.field=origin",
            "static.value=it's \\east",
            "topic.field=topic!",
            "partition.field=partition?",
            "timestamp.field=at",
        ),
    ),
    "a header decides": Case(chain="f", lines=(*named("f", "type=K.Filter", "predicate=h"), *HEADER)),
    "no header decides": Case(chain="f", lines=(*named("f", "type=K.Filter", "predicate=h", "negate=true"), *HEADER)),
    "no tombstones": Case(chain="f", lines=(*named("f", "type=K.Filter", "predicate=gone"), *UNLESS_TOMBSTONE)),
    "tombstones alone": Case(
        chain="f", lines=(*named("f", "type=K.Filter", "predicate=gone", "negate=true"), *UNLESS_TOMBSTONE)
    ),
    "names decide": Case(
        chain="f,r",
        lines=(
            *named("f", "type=K.Filter", "predicate=p"),
            *named("r", "type=K.ReplaceField$Value", "exclude=ssn", "predicate=q"),
            "predicates=p,q",
            "predicates.p.type=K.predicates.TopicNameMatches",
            "predicates.p.pattern=a\\.aud.*",
            "predicates.q.type=K.predicates.TopicNameMatches",
            "predicates.q.pattern=.*orders|a.audit",
        ),
    ),
    "no such names": Case(
        chain="f",
        lines=(
            *named("f", "type=K.Filter", "predicate=p"),
            "predicates=p",
            "predicates.p.type=K.predicates.TopicNameMatches",
            "predicates.p.pattern=orders.*",
        ),
    ),
    "the value's fields as key": Case(
        chain="k", lines=(*guarded("k", "type=K.ValueToKey", "fields=id,ssn,missing"), *UNLESS_TOMBSTONE)
    ),
    "one field as key": Case(
        chain="k,e",
        lines=(
            *guarded("k", "type=K.ValueToKey", "fields=id"),
            *guarded("e", "type=K.ExtractField$Key", "field=id"),
            *UNLESS_TOMBSTONE,
        ),
    ),
    "headers from fields": Case(
        chain="h",
        lines=(
            *guarded("h", "type=K.HeaderFrom$Value", "fields=id,amount", "headers=x-id,x-amount", "operation=move"),
            *UNLESS_TOMBSTONE,
        ),
        records=tuple(each for each in (*ORDERS, TOMBSTONE) if each[2] is None or "amount" in each[2]),
    ),
    "headers": Case(
        chain="d,i,j",
        lines=(
            *named("d", "type=K.DropHeaders", "headers=trace,none"),
            *named("i", "type=K.InsertHeader", "header=origin", "value.literal=east-1"),
            *named("j", "type=K.InsertHeader", "header=n", "value.literal=42", "predicate=h", "negate=true"),
            *HEADER,
        ),
    ),
    "a chain": Case(
        chain="m,r,i,s,k,h,f,d,g",
        lines=(
            *guarded("m", "type=K.MaskField$Value", "fields=ssn,amount"),
            *named("r", "type=K.ReplaceField$Value", "exclude=note", "renames=ssn:social,id:number"),
            *named("i", "type=K.InsertField$Value", "static.field=origin", "static.value=east", "topic.field=id"),
            *guarded("s", "type=K.MaskField$Value", "fields=origin", "replacement=west"),
            *guarded("k", "type=K.ValueToKey", "fields=number,origin,id"),
            *guarded("h", "type=K.HeaderFrom$Value", "fields=origin", "headers=from", "operation=move"),
            *named("f", "type=K.Filter", "predicate=h"),
            *named("d", "type=K.DropHeaders", "headers=from"),
            *named("g", "type=K.ReplaceField$Value", "renames=number:nr"),
            "predicates=gone,h",
            "predicates.gone.type=K.predicates.RecordIsTombstone",
            "predicates.h.type=K.predicates.HasHeaderKey",
            "predicates.h.name=b",
        ),
    ),
}


ON_BYTES: Final = ("mask", "renames", "inserted", "the value's fields as key", "headers from fields")


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What Kafka's classes make of the records of each case."""
    cases = {name: case.for_java() for name, case in CASES.items()}
    cases |= {f"{name}, of bytes": cases[name] | {"bytes": True} for name in ON_BYTES}
    return dict(zip(cases, run_java(tmp_path_factory.mktemp("smts"), [*cases.values()]), strict=True))


def run_java(folder: Path, cases: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    given = folder / "cases.json"
    given.write_text(json.dumps(cases))
    jvm = jvm_for("mm2-4.3.1")
    command = [*jvm.command(str(PROGRAM), heap_mb=256, options=["-cp", jvm.class_path]), str(given)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TERM_S, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def written(config: dict[str, str]) -> str:
    """The settings of a flow as properties."""
    return pair(*(f"a->b.{key} = {value}".replace("\\", "\\\\") for key, value in config.items()))


def transforms_of(config: dict[str, str]) -> tuple[Transform, ...]:
    """The transforms of the imported link, which is complete."""
    draft = imported(written(config))
    assert draft.is_complete, draft.notices
    return configured(draft).links[0].transforms


def ours(spark: SparkSession, case: Case) -> list[Changed]:
    """What our link makes of the records of a case."""
    transforms = transforms_of(case.config)
    found: dict[int, Changed] = {}
    for topic in dict.fromkeys(each[0] for each in case.records):
        records = [record_of(offset, each) for offset, each in enumerate(case.records) if each[0] == topic]
        transform = transform_for(transforms, topic)
        if transform is None:
            made: Sequence[Changed] = records
        else:
            (made,) = try_expressions(spark, Prepared(transform), [portion(topic, records)], {}).outcomes
        found.update(zip((each.offset for each in records), made, strict=True))
    return [found[offset] for offset in sorted(found)]


def record_of(offset: int, given: Given) -> Record:
    _, key, value, headers = given
    return Record(offset, TIME, as_bytes(key), as_bytes(value), [(name, held.encode()) for name, held in headers])


def portion(topic: str, records: list[Record]) -> Portion:
    return Portion(
        Lane(
            source_topic=SourceTopic(topic),
            source_topic_id=UUID(int=1),
            target_topic=TargetTopic(f"a.{topic}"),
            target_topic_id=UUID(int=2),
            partition=2,
        ),
        records,
        [False] * len(records),
    )


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def parsed(text: str | bytes | None) -> Any:
    """JSON as it means the same, whatever the order of its fields; other texts as they are."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text.decode() if isinstance(text, bytes) else text


def content(changed: Changed) -> dict[str, Any]:
    """What became of a record, as Kafka's side says it."""
    if changed is None:
        return {"dropped": True}
    if isinstance(changed, (Delayed, Failure)):
        return {"error": changed.reason}
    return {
        "key": parsed(changed.key),
        "value": parsed(changed.value),
        "timestamp": changed.timestamp,
        "headers": sorted([name, None if held is None else held.decode()] for name, held in changed.headers),
    }


def expected(answer: dict[str, Any]) -> dict[str, Any]:
    if "dropped" in answer or "error" in answer:
        return answer
    key, value, headers = parsed(answer["key"]), parsed(answer["value"]), sorted(answer["headers"])
    return {"key": key, "value": value, "timestamp": answer["timestamp"], "headers": headers}


@pytest.mark.parametrize("name", CASES)
def test_records_become_what_kafkas_classes_make_of_them(
    spark: SparkSession, kafkas: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """Each record is left out by both, or is the same one behind both: by content, as JSON has no order of fields.
    MaskField adds a field that a record does not have, as null; the link does not.
    """
    found = list(map(content, ours(spark, CASES[name])))
    wanted = list(map(expected, kafkas[name]))
    if "MaskField" in "".join(CASES[name].lines):
        for one, other in zip(found, wanted, strict=True):
            if isinstance(one.get("value"), dict) and isinstance(other.get("value"), dict):
                other["value"] = {k: v for k, v in other["value"].items() if v is not None or k in one["value"]}
    assert found == wanted


def test_records_of_bytes_have_no_fields(kafkas: dict[str, list[dict[str, Any]]]) -> None:
    """Kafka's classes for fields fail on each record with a value as MirrorSourceConnector hands it over, as the import
    says.
    """
    for name in ON_BYTES:
        values = [each[2] for each in CASES[name].records]
        for value, answer in zip(values, kafkas[f"{name}, of bytes"], strict=True):
            says = "Only Struct objects supported" in answer.get("error", "")
            assert says == (value is not None), (name, answer)
        draft = imported(written(CASES[name].config))
        assert any("Only Struct objects supported" in notice.why for notice in draft.notices)
