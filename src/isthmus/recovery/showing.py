"""Dead letters counted, and any records that were set aside shown, for people."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from isthmus.errors import ConfigError
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import Document, TopicDocument
from isthmus.model.links.deadletters import DEAD_LETTERS_PREFIX, dead_letters_of
from isthmus.model.links.recovery import SetAside, quarantine_of
from isthmus.model.links.trial import ShownRecord, shown_record
from isthmus.model.naming import TargetTopic
from isthmus.model.text.plain import PlainValue, TextOrNull, null_if_negative
from isthmus.recovery.letters import StoredLetter, load_letters, read_letters
from isthmus.recovery.quarantine import Quarantined, read_quarantined
from isthmus.recovery.replaying import QuarantinedPartition
from isthmus.recovery.sides import find_topic

SHOWN_MAX: Final = 1_000


class LetterHome(NamedTuple):
    """The topic for dead letters of a link's topic, named as at the target; the link is "" if nobody knows it."""

    link: str
    topic: TargetTopic
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideRecord(PlainValue):
    """One record that was set aside, and why.

    `partition`, `offset` and `topic_id` are where it stood: at the target, or for dead letters at the source, whose
    alias is `cluster`. `transform` is the transform that failed for it, by its digest, and `reason` its error.
    """

    quarantine: str
    kind: SetAside
    cluster: TextOrNull = ""
    partition: int
    offset: int
    topic_id: str
    producer_id: Annotated[int, "producer", null_if_negative] = -1
    transform: TextOrNull = ""
    reason: TextOrNull = ""
    is_replayed: bool | None = None
    record: ShownRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSelection:
    """The records to show: of a `kind`, a `partition` and an `offset` if these are given, the last `limit` of them.

    :raises ConfigError: They are too many, or none.
    """

    kind: SetAside | None = None
    partition: int | None = None
    offset: int | None = None
    limit: int = 20

    def __post_init__(self) -> None:
        if not 0 < self.limit <= SHOWN_MAX:
            raise ConfigError(f"{self.limit} records cannot be shown", hint=f"Give 1 to {SHOWN_MAX:,}.")

    def partitions(self, count: int) -> Iterable[int]:
        """Return which of so many partitions to read."""
        return range(count) if self.partition is None else ({self.partition} & set(range(count)))

    def takes(self, found: SetAsideRecord) -> bool:
        """Whether a record is selected."""
        return self.kind in (None, found.kind) and self.offset in (None, found.offset)


def letter_homes(names: Collection[str], link: str | None, documents: Iterable[Document]) -> list[LetterHome]:
    """Return the topics for dead letters of a link, or of all, among those with these `names` at a target. The ledger's
    `documents` tell topics of names that do not.
    """
    known = {(each.link, each.target_topic) for each in TopicDocument.find_all(documents)}
    found = {dead_letters_of(*each): LetterHome(*each, dead_letters_of(*each)) for each in known}
    for name in names:
        own, dot, topic = name.removeprefix(DEAD_LETTERS_PREFIX).partition(".")
        if name.startswith(DEAD_LETTERS_PREFIX) and dot and name not in found:
            is_plain = dead_letters_of(own, TargetTopic(topic)) == name
            found[name] = (
                LetterHome(own, TargetTopic(topic), name) if is_plain else LetterHome("", TargetTopic(name), name)
            )
    return sorted(home for name, home in found.items() if name in names and link in (None, home.link))


async def count_letters(target: Client, home: LetterHome) -> tuple[QuarantinedPartition, ...]:
    """Count the dead letters of a topic, by partition and by topic at the source.

    :raises ClusterError: They cannot be read.
    """
    there = await find_topic(target, home.name)
    found: list[QuarantinedPartition] = []
    for partition in range(0 if there is None else there.partition_count):
        log = await read_letters(target, home.name, partition)
        replayed = log.all_replayed
        by_topic: dict[str, list[StoredLetter]] = {}
        for each in log.letters:
            by_topic.setdefault(str(each.letter.topic_id), []).append(each)
        for topic_id, letters in by_topic.items():
            offsets = [each.letter.record.offset for each in letters]
            found.append(
                QuarantinedPartition(
                    cluster=target.cluster.alias,
                    topic=home.topic,
                    quarantine=home.name,
                    link=home.link,
                    partition=partition,
                    kind=SetAside.DEAD_LETTER,
                    producer_id=-1,
                    records=len(letters),
                    replayed=sum(each.stored in replayed for each in letters),
                    offset_first=min(offsets),
                    offset_last=max(offsets),
                    topic_id=topic_id,
                )
            )
    return tuple(found)


async def show_records(
    target: Client, link: str, topic: TargetTopic, selected: ShownSelection
) -> tuple[SetAsideRecord, ...]:
    """Return the last records that were set aside of a topic and are selected, by partition, in the order in which they
    were set aside.

    :raises ClusterError: They cannot be read.
    """
    found: list[SetAsideRecord] = []
    for name, read in ((quarantine_of(topic), _read_quarantine), (dead_letters_of(link, topic), _read_letters)):
        there = await find_topic(target, name)
        for partition in selected.partitions(0 if there is None else there.partition_count):
            last: deque[SetAsideRecord] = deque(maxlen=selected.limit)
            async with aclosing(read(target, name, partition, selected)) as records:
                async for each in records:
                    if selected.takes(each):
                        last.append(each)
            found += last
    newest = sorted(found, key=lambda each: each.record.timestamp_ms)[-selected.limit :]
    return tuple(sorted(newest, key=lambda each: (each.kind, each.partition, each.offset)))


async def _read_quarantine(
    target: Client, name: str, partition: int, _: ShownSelection
) -> AsyncGenerator[SetAsideRecord, None]:
    async with aclosing(read_quarantined(target, name, partition)) as records:
        async for each in records:
            yield _of_quarantine(name, each)


def _of_quarantine(name: str, one: Quarantined) -> SetAsideRecord:
    return SetAsideRecord(
        quarantine=name,
        kind=one.kind,
        partition=one.partition,
        offset=one.offset,
        topic_id=one.topic_id,
        producer_id=one.producer_id,
        record=shown_record(one.timestamp, one.key, one.value, one.headers),
    )


async def _read_letters(
    target: Client, name: str, partition: int, selected: ShownSelection
) -> AsyncGenerator[SetAsideRecord, None]:
    """Yield the last letters that may be selected."""
    log = await read_letters(target, name, partition)
    replayed = log.all_replayed
    places = [each for each in log.letters if selected.offset in (None, each.letter.record.offset)][-selected.limit :]
    for place in places:
        (letter,) = await load_letters(target, (name, partition), [place])
        yield SetAsideRecord(
            quarantine=name,
            kind=SetAside.DEAD_LETTER,
            cluster=letter.cluster,
            partition=letter.partition,
            offset=letter.record.offset,
            topic_id=str(letter.topic_id),
            transform=letter.transform,
            reason=letter.reason,
            is_replayed=place.stored in replayed,
            record=shown_record(*letter.record[1:]),
        )
