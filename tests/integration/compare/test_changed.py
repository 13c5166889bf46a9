"""Topics whose records are changed on their way: made again by the transform of each, and compared with the copies."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.letters import as_letter
from isthmus.engine.mapped.transformer import DeadLetter
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.cluster import SchemaRegistry
from isthmus.model.lane import Lane
from isthmus.model.links.deadletters import dead_letters_of
from isthmus.model.links.transform import (
    Decoding,
    OnError,
    PartAssignment,
    RecordFormat,
    RecordFunction,
    RecordPart,
    RecordPath,
    Transform,
)
from isthmus.model.links.verdict import DiscrepancyKind, PartitionVerdict, TopicVerdict
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.translation import MappedRange
from isthmus.spark.compare.links import LinkTransforms
from testing.brokers.registry import RegistryServer, registry_server
from testing.records.avro import encoded
from testing.records.mapped import HandMade
from testing.records.pair import Pair
from testing.records.topics import SEPTEMBER, Given, compact, create, produce
from testing.records.transactions import TransactionalProducer

pytestmark = pytest.mark.integration

RULES: Final = '''
import uuid
import pyarrow as pa

def change(rows, suffix):
    """Leaves out what is said to be left out, and fails for what is said to be bad."""
    values = rows.column("value").to_pylist()
    if b"bad" in values:
        raise ValueError("it is bad")
    kept = [place for place, value in enumerate(values) if value != b"out"]
    changed = [None if values[place] is None else values[place] + suffix() for place in kept]
    return rows.take(pa.array(kept, pa.int32())).set_column(1, "value", pa.array(changed, pa.binary()))

def mark(rows):
    return change(rows, lambda: b"!")

def chance(rows):
    return change(rows, lambda: uuid.uuid4().bytes)

def away(rows):
    raise ConnectionError("the service is away")
'''
BY_SQL: Final = Transform(
    key=Decoding(format=RecordFormat.UTF8),
    value=Decoding(format=RecordFormat.UTF8),
    where="value IS NULL OR value <> 'out'",
    sets=(PartAssignment(RecordPath(RecordPart.VALUE), "if(value = 'bad', string(int('x')), concat(value, '!'))"),),
    on_error=OnError.SKIP,
)
BY_SCHEMAS: Final = Transform(
    value=Decoding(format=RecordFormat.AVRO),
    where="value IS NULL OR value.country = 'DE'",
    sets=(PartAssignment(RecordPath(RecordPart.VALUE, ("email",)), "sha2(value.email, 256)"),),
    on_error=OnError.SKIP,
)
FIELDS: Final = [{"name": "country", "type": "string"}, {"name": "email", "type": "string"}]
LATER: Final = {"name": "note", "type": "string", "default": ""}
EARLIER: Final = "0123456789abcdef"


@pytest.fixture
def mark(tmp_path: Path) -> Transform:
    """A transform by a function that lies beside the configuration file."""
    return function(tmp_path, "mark")


def function(folder: Path, name: str) -> Transform:
    module = f"rules_{folder.name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(RULES)
    return Transform(python=RecordFunction(module, name, str(folder)), on_error=OnError.SKIP)


def given(number: int, value: bytes | None = None) -> Given:
    held = b"value %d" % number if value is None else value
    return Given(b"key-%d" % number, held, [("h", b"%d" % number)], SEPTEMBER + number)


def marked(records: Sequence[Given]) -> list[Given]:
    return [each._replace(value=(each.value or b"") + b"!") for each in records]


def several(begin: int, end: int) -> list[Given]:
    return [given(number) for number in range(begin, end)]


class Changed(HandMade):
    """A topic whose copies are made by hand, by the transform that its link has now, for other topics `also`."""

    def __init__(self, pair: Pair, stem: str, transform: Transform | None, **configs: Any) -> None:
        self.name = pair.topic(stem, **configs)
        self.transform = transform
        self.also: tuple[str, ...] = ()
        self._pair = pair
        super().__init__(pair.source, pair.target, self.name, self.name)

    def verify(self, **options: Any) -> TopicVerdict:
        transforms = LinkTransforms()
        if self.transform is not None:
            digest = self.transform.digest
            topics = [SourceTopic(each) for each in (self.name, *self.also)]
            transforms = LinkTransforms({digest: self.transform}, dict.fromkeys(topics, digest))
        verdict = self._pair.verify(self.name, link=self.name, transforms=transforms, **options)
        return verdict[self.name]


def findings(partition: PartitionVerdict) -> list[tuple[DiscrepancyKind, int, int, tuple[str, ...]]]:
    return [(one.kind, one.offset_begin, one.offset_end, one.fields) for one in partition.findings]


@pytest.mark.parametrize("way", ["python", "sql"])
def test_copies_are_compared_with_what_the_transform_makes(pair: Pair, mark: Transform, way: str) -> None:
    """What it leaves out is expected to be absent, and so is what it fails for and skips. All else is found, in offsets
    of the source, also behind the place of the lane, where only what it keeps is missing.
    """
    made = Changed(pair, f"changed-{way}", mark if way == "python" else BY_SQL)
    assert made.transform is not None
    made.at_target(several(0, 3))
    made.made_by(made.transform.digest)
    made.copy(several(0, 10), at_target=marked(several(0, 10)))
    made.leave_out([given(10, b"out"), given(11, b"bad")])
    made.copy(several(12, 20), at_target=marked(several(12, 20)))
    made.told()

    verdict = made.verify()
    (partition,) = verdict.partitions
    assert (verdict.word, verdict.hint, verdict.records) == ("equal", "", 20)
    assert (partition.filtered, partition.skipped, partition.foreign) == (1, 1, 3)

    wrong = marked(several(20, 30))
    wrong[3] = wrong[3]._replace(value=b"value 23", headers=[])
    made.copy(several(20, 30), at_target=wrong)
    made.copy([given(30, b"out")], at_target=[given(30)])
    made.leave_out(several(31, 33))
    made.at_source([*several(33, 36), given(36, b"out"), given(37, b"bad")])
    made.told()
    verdict = made.verify()
    (partition,) = verdict.partitions
    assert findings(partition) == [
        (DiscrepancyKind.MISSING, 31, 36, ()),
        (DiscrepancyKind.EXTRA, 30, 31, ()),
        (DiscrepancyKind.DIFFERENT, 23, 24, ("value", "headers")),
    ]
    assert (partition.missing, partition.extra, partition.different) == (5, 1, 1)
    assert (partition.filtered, partition.skipped, partition.records) == (2, 2, 38)
    assert partition.findings[2].target_offset == 3 + 18 + 3
    assert ("not deterministic" in verdict.hint) == (way == "python")
    (partition,) = made.verify(allow_lag=True).partitions
    assert (partition.missing, partition.lag) == (2, 5)


def test_what_an_earlier_transform_made_is_neither_equal_nor_lost(pair: Pair, mark: Transform) -> None:
    """It is named with its offsets, also if the link has no transform any more; all else is compared."""
    made = Changed(pair, "generations", mark)
    made.copy(several(0, 10))
    made.made_by(EARLIER)
    made.copy(several(10, 15), at_target=[given(number, b"masked") for number in range(10, 15)])
    made.leave_out(several(15, 20))
    made.made_by(mark.digest)
    made.copy(several(20, 25), at_target=marked(several(20, 25)))
    made.told()

    verdict = made.verify()
    (partition,) = verdict.partitions
    assert (verdict.word, verdict.differs, verdict.not_compared) == ("not compared", False, 10)
    (unknown,) = partition.uncompared
    assert (unknown.offset_begin, unknown.offset_end) == (10, 20)
    assert f"made by an earlier transform ({EARLIER})" in str(unknown)
    assert partition.records == 15

    made.transform = None
    made.made_by("")
    made.copy(several(25, 30))
    made.told()
    verdict = made.verify()
    (partition,) = verdict.partitions
    assert (verdict.word, partition.missing, partition.extra, partition.different) == ("not compared", 0, 0, 0)
    assert [(one.offset_begin, one.offset_end) for one in partition.uncompared] == [(10, 20), (20, 25)]
    assert partition.records == 15


def test_a_transform_that_cannot_be_applied_is_a_clear_result(pair: Pair, mark: Transform, tmp_path: Path) -> None:
    """Whether it cannot be loaded, cannot work now, or Spark does not understand it: nothing is said of its records."""
    made = Changed(pair, "inapplicable", None)
    made.at_source(several(0, 5))
    made.told()
    assert mark.python is not None
    for transform, reason in (
        (Transform(python=RecordFunction("no_such_rules", "mark")), "no_such_rules:mark cannot be imported"),
        (function(tmp_path, "away"), "the service is away"),
        (Transform(where="nope(key)"), "nope"),
    ):
        made.transform = transform
        verdict = made.verify()
        (partition,) = verdict.partitions
        assert (verdict.word, partition.not_compared) == ("not compared", 5)
        assert reason in partition.uncompared[0].reason


def test_chance_is_said_to_be_behind_findings(pair: Pair, tmp_path: Path) -> None:
    """A function that makes another record each time it is asked proves it; expressions name what they read."""
    made = Changed(pair, "chance", function(tmp_path, "chance"))
    assert made.transform is not None
    made.made_by(made.transform.digest)
    made.copy(several(0, 3), at_target=marked(several(0, 3)))
    made.told()
    verdict = made.verify()
    assert verdict.different == 3
    assert "called again, it made another record of offset 0" in verdict.hint

    path = RecordPath(RecordPart.VALUE)
    made.transform = Transform(sets=(PartAssignment(path, "uuid()"),))
    made.transforms[0] = (0, 0, made.transform.digest)
    made.told()
    verdict = made.verify()
    assert verdict.different == 3
    assert "not deterministic (uuid)" in verdict.hint


@pytest.mark.parametrize("way", ["python", "sql"])
def test_compaction_of_changed_records_at_either_side(pair: Pair, mark: Transform, way: str) -> None:
    """What a log cleaner has taken is no difference, by the keys that the transform makes."""
    made = Changed(pair, f"cleaned-{way}", mark if way == "python" else BY_SQL)
    assert made.transform is not None
    made.made_by(made.transform.digest)
    made.copy(several(0, 10), at_target=marked(several(0, 10)))
    writing = {
        each: TransactionalProducer(each, f"{made.name}-{n}") for n, each in enumerate((pair.source, pair.target))
    }
    # Control records stand where a cleaner has taken ours at the target: of key-10, which comes later, and of key-11.
    for number in (10, 11):
        made.at_source([given(number)])
        writing[pair.target].send(made.name, [given(number - 10)])
        writing[pair.target].end(commit=True)
        made.ranges.append(MappedRange(made.source_end - 1, made.target_end + 1, 1))
        made.target_end += 2
    # And one at the source, where the target still has a record.
    writing[pair.source].send(made.name, several(12, 13))
    writing[pair.source].end(commit=True)
    made.source_end += 2
    made.ranges.append(MappedRange(12, made.target_end, 2))
    made.at_target(marked([given(12), given(13, b"earlier")]))
    made.copy([given(10), given(14, b"out")][:1], at_target=marked([given(10)]))
    made.told()
    for cluster in (pair.source, pair.target):
        compact(cluster, made.name)
    (partition,) = made.verify().partitions
    assert (partition.missing, partition.extra, partition.different, partition.cleaned) == (1, 0, 0, 2)
    assert findings(partition) == [(DiscrepancyKind.MISSING, 11, 12, ())]


def topic_id(cluster: LocalCluster, name: str) -> uuid.UUID:
    async def ask() -> uuid.UUID:
        async with Client(cluster.cluster()) as client:
            return (await client.metadata([name])).topics[name].topic_id

    return asyncio.run(ask())


@pytest.mark.parametrize("way", ["python", "sql"])
def test_dead_letters_are_no_losses_and_what_is_neither_copied_nor_one_is(
    pair: Pair, mark: Transform, way: str
) -> None:
    """A record for which an earlier version failed stays a letter, also if it could be changed now."""
    made = Changed(pair, f"lettered-{way}", replace(mark if way == "python" else BY_SQL, on_error=OnError.DEAD_LETTER))
    assert made.transform is not None
    name = TargetTopic(made.name)
    letters = dead_letters_of(made.name, name)
    create(pair.target, letters)
    made.made_by(made.transform.digest)
    made.copy(several(0, 3), at_target=marked(several(0, 3)))
    absent = [given(3, b"bad"), given(4), given(5, b"bad"), given(6), given(7, b"out")]
    made.leave_out(absent)
    made.copy(several(8, 10), at_target=marked(several(8, 10)))
    made.at_source([given(10, b"bad")])
    made.told()
    lane = Lane(
        source_topic=SourceTopic(made.name),
        source_topic_id=topic_id(pair.source, made.name),
        target_topic=name,
        target_topic_id=topic_id(pair.target, made.name),
        partition=0,
        is_mapped=True,
        transform="earlier",
    )
    for offset, one in ((3, absent[0]), (4, absent[1])):
        record = Record(offset, one.timestamp, one.key, one.value, [("h", b"%d" % offset)])
        dead = DeadLetter(record, 0, is_appended=False, reason="it was bad")
        letter = as_letter(dead, lane, "east", offset)
        produce(pair.target, letters, [Given(letter.key, letter.value, [*letter.headers], letter.timestamp)])

    (partition,) = made.verify().partitions
    assert findings(partition) == [(DiscrepancyKind.MISSING, 5, 7, ()), (DiscrepancyKind.MISSING, 10, 11, ())]
    assert (partition.skipped, partition.filtered, partition.not_compared) == (2, 1, 0)


def test_letters_whose_topic_was_deleted_are_not_called_missing(pair: Pair, mark: Transform) -> None:
    """The lane has counted more records that failed than there are letters: nobody can say which they were. What it has
    not reached is missing for certain.
    """
    made = Changed(pair, "unlettered", replace(mark, on_error=OnError.DEAD_LETTER))
    assert made.transform is not None
    create(pair.target, dead_letters_of(made.name, TargetTopic(made.name)))
    made.made_by(made.transform.digest)
    made.copy(several(0, 1), at_target=marked(several(0, 1)))
    made.leave_out([given(1, b"bad"), given(2, b"bad")])
    made.copy(several(3, 4), at_target=marked(several(3, 4)))
    made.at_source([given(4, b"bad")])
    made.failed = 2
    made.told()

    (partition,) = made.verify().partitions
    assert findings(partition) == [(DiscrepancyKind.MISSING, 4, 5, ())]
    assert partition.not_compared == 2
    assert "2 letters fewer than its lane had records that failed" in str(partition.uncompared[0])


def test_what_an_earlier_transform_skipped_hides_no_loss(pair: Pair, mark: Transform) -> None:
    """There are fewer letters than records that failed, as those that were skipped have none."""
    made = Changed(pair, "skipped", replace(mark, on_error=OnError.DEAD_LETTER))
    assert made.transform is not None
    create(pair.target, dead_letters_of(made.name, TargetTopic(made.name)))
    made.made_by(EARLIER)
    made.copy(several(0, 1), at_target=marked(several(0, 1)))
    made.leave_out([given(1, b"bad")])
    made.made_by(made.transform.digest)
    made.copy(several(2, 3), at_target=marked(several(2, 3)))
    made.leave_out([given(3)])
    made.copy(several(4, 5), at_target=marked(several(4, 5)))
    made.failed = 1
    made.told()

    (partition,) = made.verify().partitions
    assert (DiscrepancyKind.MISSING, 3, 4, ()) in findings(partition)
    assert partition.not_compared == 2


class PeopleSchema:
    """One of the schemas of a topic, whose records are people."""

    def __init__(self, registry: RegistryServer, topic: str, *more: object) -> None:
        self._schema = {"type": "record", "name": "Person", "fields": [*FIELDS, *more]}
        self._frame = b"\0" + registry.register(f"{topic}-value", self._schema).to_bytes(4)

    def given(self, number: int, country: str = "DE", *, is_hidden: bool = False) -> Given:
        email = f"{number}@example.com"
        shown = hashlib.sha256(email.encode()).hexdigest() if is_hidden else email
        held = encoded(self._schema, {"country": country, "email": shown, "note": "n"})
        return given(number, self._frame + held[len(self._frame) :])


def test_copies_by_schemas_of_a_registry_are_made_again(pair: Pair) -> None:
    """Each record by its own schema. Without an answer of the registry nothing is said of them."""
    made = Changed(pair, "schemas", BY_SCHEMAS)
    made.made_by(BY_SCHEMAS.digest)
    with registry_server() as registry:
        pair.registry = SchemaRegistry(alias=pair.source.name, url=registry.url)
        first, later = PeopleSchema(registry, made.name), PeopleSchema(registry, made.name, LATER)
        made.copy([first.given(n) for n in range(5)], at_target=[first.given(n, is_hidden=True) for n in range(5)])
        made.leave_out([first.given(5, "US"), given(6, b"\0\0")])
        made.copy([later.given(7)], at_target=[later.given(7, is_hidden=True)])
        made.copy([first.given(8)], at_target=[first.given(8)])
        made.copy([given(9)._replace(value=None)], at_target=[given(9)._replace(value=None)])
        made.told()
        (partition,) = made.verify().partitions
        assert findings(partition) == [(DiscrepancyKind.DIFFERENT, 8, 9, ("value",))]
        assert (partition.records, partition.filtered, partition.skipped, partition.not_compared) == (10, 1, 1, 0)

    (partition,) = made.verify().partitions
    assert (findings(partition), partition.not_compared) == ([], 10)
    assert "does not answer" in str(partition.uncompared[0])


def test_a_schema_that_the_registry_does_not_have_says_nothing_of_its_records(pair: Pair) -> None:
    """A replica of it may lag: neither are they equal, nor do they differ."""
    made = Changed(pair, "schemaless", BY_SCHEMAS)
    made.made_by(BY_SCHEMAS.digest)
    with registry_server() as registry:
        pair.registry = SchemaRegistry(alias=pair.source.name, url=registry.url)
        person = PeopleSchema(registry, made.name)
        made.copy([person.given(0)], at_target=[person.given(0, is_hidden=True)])
        made.copy([given(1, b"\0\0\0\0\x63")])
        made.leave_out([given(2, b"\0\0\0\0\x63")])
        made.told()
        (partition,) = made.verify().partitions
        assert (findings(partition), partition.not_compared) == ([], 2)
        assert "has no schema 99" in str(partition.uncompared[0])


def test_types_are_those_of_all_topics_of_a_transform(pair: Pair) -> None:
    """A run has columns for all of them, whichever are verified."""
    shown = PartAssignment(RecordPath(RecordPart.HEADERS, ("n",)), "cast(value.n AS string)")
    transform = Transform(value=Decoding(format=RecordFormat.AVRO), sets=(shown,), on_error=OnError.SKIP)
    made, other = Changed(pair, "types", transform), pair.topic("other")
    made.also = (other,)
    made.made_by(transform.digest)
    with registry_server() as registry:
        pair.registry = SchemaRegistry(alias=pair.source.name, url=registry.url)
        ints = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}
        frame = b"\0" + registry.register(f"{made.name}-value", ints).to_bytes(4)
        registry.register(f"{other}-value", {**ints, "fields": [{"name": "n", "type": "double"}]})
        one = given(0, frame + encoded(ints, {"n": 5})[len(frame) :])
        made.copy([one], at_target=[one._replace(headers=[*one.headers, ("n", b"5.0")])])
        made.told()
        (partition,) = made.verify().partitions
        assert (findings(partition), partition.not_compared) == ([], 0)
