"""What is left of a link that ends: how much of the source may be missing, as far as its ledger tells."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from isthmus.engine.batches.rebatch import Record, encode
from isthmus.errors import ClusterError, GateNotMet
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.metadata import Metadata, PartitionMetadata, TopicMetadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.ledger.documents.controller import ControllerDocument
from isthmus.ledger.documents.declared import DeclarationDocument
from isthmus.ledger.documents.kinds import (
    Document,
    EndedPartition,
    LeaseDocument,
    LinkDocument,
    ProgressDocument,
    TaskDocument,
    TopicDocument,
    TransactionNamesDocument,
    encode_document,
)
from isthmus.ledger.documents.lastknown import KnownNamesDocument
from isthmus.ledger.records import Entry
from isthmus.links.gates import is_beyond, require_copies, require_within
from isthmus.memory import leaving
from isthmus.memory.leaving import (
    add_transactional_ids,
    followed_topics,
    goes_without,
    left_nothing,
    left_of,
    names_age_s,
    provenance,
    seen_logs,
    source_logs,
    without_open,
    writing_lanes,
)
from isthmus.memory.links import LinkMemory
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState, lone_producer_id
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration, attachment
from isthmus.model.links.lastknown import KnownLog, KnownNames, KnownTopic
from isthmus.model.links.promotion import Promotion, TornTransaction
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition
from isthmus.model.registers import Author, Register, change_registers
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.text.plain import plain

NO_ID = uuid.UUID(int=0)
LINK = Link(
    name="orders",
    source=Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",)),
    target=Cluster(alias="west", bootstrap_servers=("127.0.0.1:2",)),
    topics=TopicSettings(include=(TopicPattern.parse("*"),), naming=NamespaceNaming((NamespaceMap.parse("a-:x-"),))),
)
NAMES = KnownNames(
    cluster_id="E",
    alias="east",
    link="orders",
    seen_ms=40_000,
    topics=(
        KnownTopic(name="a-2", replicas=1, logs=(KnownLog(0, 10, 60), KnownLog(1, -1, -1))),
        KnownTopic(name="b-9", replicas=1, logs=(KnownLog(0, 0, 5),)),
    ),
)
HERE, THERE = (SourceTopic("a-1"), 0), (TargetTopic("x-1"), 0)
SHORTER = {HERE: LogRange(0, 17, 17)}


def topic(number: int) -> TopicDocument:
    """A topic that the link follows; no broker of the target has given it an id."""
    return TopicDocument(
        link="orders",
        source_topic=SourceTopic(f"a-{number}"),
        source_topic_id=NO_ID,
        target_topic=TargetTopic(f"x-{number}"),
        target_topic_id=NO_ID,
        state="ACTIVE",
    )


def memory(*documents: Document) -> LinkMemory:
    """What the ledger says of the link."""
    return LinkMemory("orders", documents={each.key: each for each in documents})


def tell(known: LinkMemory, report: LaneReport) -> None:
    """A task tells of a lane."""
    told = ProgressDocument(link="orders", slot=0, controller=1, generation=1, is_full=True, reports=(report,))
    known.take(Entry(0, told.key, encode_document(told), 0))


def test_a_topic_that_the_target_does_not_have_is_missing_as_a_whole() -> None:
    """With all that its source was seen to hold, or as a whole of which nothing is known: it is not passed over."""
    begun = LinkDocument(
        link="orders", source_cluster_id="E", target_cluster_id="W", producer_id=1, marker_producer_id=2
    )
    known = memory(begun, topic(1), topic(2), topic(3), KnownNamesDocument(link="orders", names=NAMES))

    left = left_of(LINK, known, {THERE: LogRange(0, 20, 20)}, None, at_ms=50_000)

    assert [(each.topic, each.partition, each.missing_records, each.source_age_s) for each in left] == [
        ("x-1", 0, -1, None),
        ("x-2", 0, 50, 10.0),
        ("x-2", 1, -1, 10.0),
        ("x-3", -1, -1, None),
    ]
    found = Promotion(link="orders", verb="failover", namespaces=(), partitions=left)
    assert (found.missing_records, found.missing_records_min, found.missing_s) == (None, 50, 10.0)
    assert found.unknown == "1 whole topic and 2 partitions"
    assert "it is not known how many records of the source are missing" in found.missing_in_words
    assert [each["partition"] for each in plain(found)["partitions"]] == [0, 0, 1, None]


def test_a_link_that_never_ran_knows_nothing() -> None:
    """Of its source's topics nobody has heard: any number of records may be missing, not 0."""
    found = Promotion(link="orders", verb="failover", namespaces=(), topics_age_s=names_age_s(memory(), 1))
    assert (found.missing_records, found.missing_records_min, found.topics_age_s) == (None, 0, None)
    assert found.missing_in_words == (
        "it is not known how many records of the source are missing: nothing is known of its topics"
    )


def test_a_source_that_answers_tells_itself() -> None:
    """What it has now counts, whatever was written down of it; and that it answers is said."""
    known = memory(topic(1), KnownNamesDocument(link="orders", names=NAMES))
    logs, seen = {THERE: LogRange(0, 20, 20)}, {HERE: LogRange(0, 30, 90)}
    (left, *_) = left_of(LINK, known, logs, None, at_ms=50_000, seen=seen, ours={THERE: 20})
    assert (left.source_end, left.missing_records, left.source_age_s) == (90, 70, 0.0)
    found = Promotion(link="orders", verb="failover", namespaces=(), partitions=(left,), answering="east")
    assert found.missing_in_words.endswith("east answers: promote or reverse in place of this loses nothing")
    assert plain(found)["source_answers"]
    assert replace(found, verb="detach").missing_in_words.endswith("east answers")


def test_what_somebody_else_may_have_written_is_no_copy() -> None:
    """Behind what a lane told last the target may hold records of others, which nobody has noticed: they count only if
    the link itself wrote the last of them. Of a lane that never told anything nobody knows.
    """
    known, key, there = memory(topic(1)), LaneKey(*THERE), {THERE: LogRange(0, 20, 20)}
    here = {HERE: LogRange(0, 20, 20)}
    (left,) = left_of(LINK, known, there, None, at_ms=1)
    assert (left.missing_records, left.copied_end) == (-1, -1)
    tell(known, LaneReport(key=key, state=LaneState.ACTIVE, position=15, source_end=20, source_log_end=20))
    for source in (None, here):
        (left,) = left_of(LINK, known, there, source, at_ms=1)
        assert (left.missing_records, left.copied_end) == (5, 15)
        (left,) = left_of(LINK, known, there, source, at_ms=1, ours={THERE: 20})
        assert (left.missing_records, left.copied_end) == (0, 20)
    # A task that begins and does not know yet where it is takes nothing of that back.
    tell(known, LaneReport(key=key, state=LaneState.STARTING))
    (left,) = left_of(LINK, known, there, None, at_ms=1)
    assert left.missing_records == 5


@pytest.mark.parametrize(
    ("shown", "gone", "has_topics", "is_whole"),
    [
        (True, frozenset(), True, True),
        (False, frozenset(), False, False),
        (False, frozenset({"a-1"}), True, True),
    ],
)
def test_an_answer_without_what_was_followed_is_not_all_there_is(
    shown: bool, gone: frozenset[str], has_topics: bool, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right that is missing hides topics, and a broker that has just started knows none: only what all of them say is
    gone does not count. Nor does an answer of nothing where nothing was followed.
    """
    partition = PartitionMetadata(0, 1, 0, (1,), (1,), 0)
    topics = {"a-1": TopicMetadata("a-1", NO_ID, (partition,), 0, is_internal=False)} if shown else {}

    async def selected(*_: Any) -> Metadata:
        return Metadata("E", 1, {}, topics)

    async def absent(*_: Any) -> frozenset[str]:
        return gone

    async def ranges(*_: Any, **__: Any) -> Outcomes[PartitionKey, LogRange]:
        return Outcomes({(name, 0): LogRange(0, 5, 5) for name in topics})

    for name, fake in (("selected_topics", selected), ("known_absent", absent), ("log_ranges", ranges)):
        monkeypatch.setattr(leaving, name, fake)
    followed = followed_topics(LINK, memory(topic(1)))
    seen = asyncio.run(seen_logs(LINK, Client(LINK.source), followed))
    assert (seen.has_topics, seen.is_whole) == (has_topics, is_whole)
    assert asyncio.run(seen_logs(LINK, Client(LINK.source), ())).is_whole == shown

    async def here() -> Mapping[SourceTopicPartition, LogRange]:
        async with Client(LINK.source) as source:
            return await source_logs(LINK, source, followed)

    if has_topics:
        assert asyncio.run(here()) == {(name, 0): LogRange(0, 5, 5) for name in topics}
    else:
        # A promotion would take it for deleted at the source.
        with pytest.raises(ClusterError, match="does not show a-1"):
            asyncio.run(here())


def test_nothing_is_copied_of_a_topic_that_is_another_one_by_now() -> None:
    """It was created anew while nobody ran the link, whose last word was that all is well: what the target has is of
    the one before. An id that nobody knows tells nothing.
    """
    document, there = replace(topic(1), source_topic_id=uuid.UUID(int=1)), {THERE: LogRange(0, 20, 20)}
    known, seen = memory(document), {HERE: LogRange(0, 10, 10)}
    for found, missing, state in ((1, 0, None), (0, 0, None), (2, -1, LaneState.TOPIC_RECREATED)):
        ids = {"a-1": uuid.UUID(int=found)}
        (left,) = left_of(LINK, known, there, None, at_ms=1, seen=seen, ours={THERE: 20}, ids=ids)
        assert (left.missing_records, left.state) == (missing, state)


def test_a_time_in_the_future_is_not_now() -> None:
    """The clock of who looks may be behind that of who saw: then nobody knows how long ago that was."""
    begun = LinkDocument(
        link="orders", source_cluster_id="E", target_cluster_id="W", producer_id=1, marker_producer_id=2
    )
    known = memory(begun, topic(2), KnownNamesDocument(link="orders", names=NAMES))
    for at_ms, age_s in ((41_000, 1.0), (39_500, 0.0), (30_000, None)):
        left = left_of(LINK, known, {}, None, at_ms=at_ms)
        assert [(each.source_end, each.source_age_s) for each in left] == [(60, age_s), (-1, age_s)]
        ages = names_age_s(known, at_ms)
        found = Promotion(link="orders", verb="failover", namespaces=(), partitions=left, topics_age_s=ages)
        told = plain(found)
        assert (told["missing_seconds"], told["topics_seen_seconds_ago"]) == (age_s, age_s)
        assert ("the time of that is unknown" in found.missing_in_words) == (age_s is None)
    report = LaneReport(key=LaneKey(TargetTopic("x-2"), 0), state=LaneState.ACTIVE, position=5, source_end=70)
    tell(known, report)
    (left_by_lane, _) = left_of(LINK, known, {}, None, at_ms=-2_000)
    assert (left_by_lane.source_end, left_by_lane.source_age_s) == (70, None)


def test_what_waits_for_a_transaction_may_be_missing() -> None:
    """Records behind an open transaction are acknowledged, and are not copied: the log's end counts."""
    known, key = memory(topic(1)), LaneKey(*THERE)
    report = LaneReport(key=key, state=LaneState.ACTIVE, position=20, source_end=20, source_log_end=520)
    tell(known, report)
    (left,) = left_of(LINK, known, {THERE: LogRange(0, 20, 20)}, None, at_ms=1)
    assert left.missing_records == 500


@pytest.mark.parametrize(
    ("within", "end", "torn", "words"),
    [
        (
            (4711, 4712),
            20,
            (4711, 4712),
            "the end of a committed transaction is missing in x-1-0 (producer 4711, producer 4712)",
        ),
        ((), 20, (), "1 record of the source may be missing"),
        ((4711,), 21, None, "whether a committed transaction is cut is not known of 1 partition"),
        (None, 20, None, "whether a committed transaction is cut is not known of 1 partition"),
    ],
)
def test_a_partition_that_ends_within_a_transaction_is_named(
    within: tuple[int, ...] | None, end: int, torn: tuple[int, ...] | None, words: str
) -> None:
    """As its lane told it of just that offset; what came after its last word may have ended the transaction, or begun
    another. A source that answers, all of which is there, has no such transaction.
    """
    known, key, there = memory(topic(1)), LaneKey(*THERE), {THERE: LogRange(0, end, end)}
    tell(known, LaneReport(key=key, state=LaneState.ACTIVE, position=20, source_end=end + 1, within=within))
    (left,) = left_of(LINK, known, there, None, at_ms=1)
    assert left.ends_within == (None if torn is None else tuple(map(TornTransaction, torn)))
    found = Promotion(link="orders", verb="failover", namespaces=(), partitions=(left,))
    assert words in found.missing_in_words
    assert ("committed transaction" in found.missing_in_words) == (torn != ())
    (told,) = provenance(found, known)
    assert told.ends_within == left.ends_within
    (whole,) = left_of(
        LINK,
        known,
        there,
        {HERE: LogRange(0, end, end)},
        at_ms=1,
        ours={key: log.end for key, log in there.items()},
    )
    assert whole.ends_within == ()


def test_what_is_open_at_the_target_is_nobodys_to_see() -> None:
    """A partition does not end within such a transaction, and the failover that aborts it calls it by its name. What it
    holds back is copied, and may be missing: its end may be committed at the source.
    """
    known = memory(topic(1), TransactionNamesDocument(link="orders", names=(TornTransaction(4711, "payments"),)))
    key, there = LaneKey(*THERE), {THERE: LogRange(0, 12, 20)}
    tell(known, LaneReport(key=key, state=LaneState.ACTIVE, position=20, source_end=20, within=(4711, 4712)))
    left = left_of(LINK, known, there, None, at_ms=1)
    mirrored = OpenTransaction("x-1", 0, TransactionState.MIRRORED, lone_producer_id(4711), 0, 0, 12, 8)
    (mine, other) = add_transactional_ids(
        [mirrored, mirrored._replace(producer_id=5, state=TransactionState.HANGING)], known
    )
    (kept,) = without_open(left, [mine, other])
    assert kept.ends_within == (TornTransaction(4712),)
    assert (mine.owner, other.owner) == ("payments", "producer 5")
    assert [(each.copied_end, each.missing_records) for each in left] == [(20, 8)]


def test_what_the_source_says_now_is_all_there_is() -> None:
    """A topic that it has no more keeps nobody from being promoted, whatever was seen of it."""
    known = memory(topic(1), topic(3), KnownNamesDocument(link="orders", names=NAMES))
    there = {THERE: LogRange(0, 20, 20)}
    (left,) = left_of(
        LINK,
        known,
        there,
        {HERE: LogRange(5, 30, 30)},
        at_ms=1,
        ours={key: log.end for key, log in there.items()},
    )
    assert (left.missing_records, left.source_age_s) == (10, 0.0)
    assert Promotion(link="orders", verb="promote", namespaces=(), partitions=(left,)).unknown == ""
    assert plain(replace(left, missing_records=0))["missing_records"] == 0


@pytest.mark.parametrize(
    ("state", "position", "missing"),
    [
        (LaneState.FOREIGN_WRITE, 20, 5),
        (LaneState.DATA_GAP, 18, 7),
        (LaneState.DIVERGED, 20, -1),
        (LaneState.TOPIC_RECREATED, 20, -1),
        (LaneState.REFUSED, -1, -1),
    ],
)
@pytest.mark.parametrize("told_by", ["report", "partition", "topic"])
def test_where_a_partition_has_ended_its_log_end_proves_nothing(
    state: LaneState, position: int, missing: int, told_by: str
) -> None:
    """What may be missing is counted from where its lane came to; where that tells nothing either, it is not known."""
    document, key = topic(1), LaneKey(*THERE)
    if told_by == "partition":
        document = replace(document, ended=(EndedPartition(partition=0, state=str(state)),))
    elif told_by == "topic":
        document = replace(document, state=str(state))
    known = memory(document)
    tell(known, LaneReport(key=key, state=state, position=position, source_end=25))
    if told_by != "report":
        known.reports.clear()

    ours, there = {THERE: position}, {THERE: LogRange(0, 25, 25)}

    (left,) = left_of(LINK, known, there, None, at_ms=1, ours=ours)

    assert (left.state, left.missing_records) == (state, missing)
    # Nor does it say what came from the source: others may have written behind that, and it may not be known either.
    assert left.copied_end == (position if missing >= 0 else -1)
    (left_by_source,) = left_of(LINK, known, there, {}, at_ms=1, ours=ours)
    assert (left_by_source.state, left_by_source.copied_end) == (None, left.copied_end)
    assert plain(left)["state"] == str(state)
    found = Promotion(link="orders", verb="failover", namespaces=(), partitions=(left, left))
    assert found.ended == f"2 partitions {state}"


@pytest.mark.parametrize(("state", "end"), [(LaneState.FOREIGN_WRITE, 25), (LaneState.ACTIVE, 18)])
def test_what_was_copied_may_be_lost_and_others_stand_in_its_place(state: LaneState, end: int) -> None:
    """So a lane's word counts no more where somebody else has written, or where the target ends before it: only what
    the link itself wrote there shows how far it came. Else nobody knows.
    """
    known, key = memory(topic(1)), LaneKey(*THERE)
    tell(known, LaneReport(key=key, state=state, position=20, source_end=25))
    there = {THERE: LogRange(0, end, end)}
    for ours, missing, copied in (({}, -1, -1), ({THERE: min(end, 20)}, 25 - min(end, 20), min(end, 20))):
        (left,) = left_of(LINK, known, there, None, at_ms=1, ours=ours)
        assert (left.missing_records, left.copied_end) == (missing, copied)


def test_equal_ends_are_no_copy_where_no_lane_ever_told_of_itself() -> None:
    """Somebody else may have written as many records as the source has: what stands there has to be the source's."""
    known, logs = memory(topic(1)), {THERE: LogRange(0, 20, 20)}
    here = {HERE: LogRange(0, 20, 20)}
    (left,) = left_of(LINK, known, logs, here, at_ms=1)
    assert (left.missing_records, left.copied_end) == (-1, -1)
    (left,) = left_of(LINK, known, logs, here, at_ms=1, ours={THERE: 20})
    assert (left.missing_records, left.copied_end) == (0, 20)


def test_the_link_wrote_what_stands_at_the_offset_it_was_written_for() -> None:
    """Its producer id alone does not show that: the sequence follows from the offset. Others' records never do."""
    identity = LinkDocument(
        link="orders", source_cluster_id="E", target_cluster_id="W", producer_id=7, marker_producer_id=8
    )
    known = memory(identity)

    def ours(producer_id: int, base_offset: int, sequence: int) -> dict[TargetTopicPartition, int]:
        records = [Record(base_offset + n, 1000, None, b"", []) for n in range(3)]
        batch = encode(records, 0)._replace(producer_id=producer_id, base_sequence=sequence)
        return leaving._ours(known, {THERE: batch})

    assert ours(7, 10, 10) == {THERE: 13}
    far = 5 << 31
    assert ours(7, far + 10, 10) == {THERE: far + 13}
    for producer_id, base_offset, sequence in ((7, 10, 9), (7, 10, 0), (9, 10, 10), (-1, 10, -1)):
        assert ours(producer_id, base_offset, sequence) == {}


def test_a_controller_has_let_go_when_it_says_so_of_this_detachment() -> None:
    """Not by a word that is older, or of another one, nor while the ledger does not have the detachment."""
    first, second = map(NamespaceMap.parse, ("a-", "b-"))
    me = Author(by="me", at_ms=1, where="W")
    before = change_registers((), {attachment(first): True, attachment(second): True}, me)
    after = change_registers(before, {attachment(first): False}, me)
    older, newer = (Declaration(name="orders", registers=each).attached_said for each in (before, after))

    def told(registers: tuple[Register, ...], said: str) -> bool:
        known = memory(DeclarationDocument(link="orders", cluster="W", registers=registers))
        known.controller = ControllerDocument(link="orders", generation=1, beat=1, started_ms=1, attached_said=said)
        return goes_without(known, [first])

    assert told(after, newer)
    assert not told(after, older)
    assert not told(after, "")
    assert not told(before, older)
    everything = memory(DeclarationDocument(link="orders", cluster="W", registers=after))
    assert not goes_without(everything, [first]), "nobody has said anything"


def test_what_a_lease_left_on_its_way_is_waited_for() -> None:
    """Whoever could write may have ended, or let go: what brokers have not read yet of a lease that was lost comes."""
    lost = LeaseDocument(
        link="orders", slot=0, controller=1, generation=2, revision=1, lanes=(), ended_through=2, is_clean=False
    )
    said = TaskDocument(link="orders", slot=0, controller=1, generation=3, ended_through=3, is_clean=True)
    assert not writing_lanes(memory(lost), lambda _: True)
    assert not left_nothing(memory(lost))
    assert left_nothing(memory(replace(lost, is_clean=True)))
    assert left_nothing(memory(replace(lost, generation=3), said))
    assert not left_nothing(memory(replace(lost, generation=3), replace(said, is_clean=False)))
    assert left_nothing(memory())


@pytest.mark.parametrize("start", [20, 0])
def test_nothing_is_missing_of_a_source_without_records(start: int) -> None:
    """Retention may have taken all on both sides: there is no last record that would show what stands there."""
    known, here = memory(topic(1)), {HERE: LogRange(20, 20, 20)}
    (left,) = left_of(LINK, known, {THERE: LogRange(start, 20, 20)}, here, at_ms=1)
    assert (left.missing_records, left.copied_end) == (0, -1)


def test_what_has_ended_keeps_a_follower_from_being_promoted() -> None:
    """Whatever the ends of both logs say, while the source has that topic; it is named, with the way out."""
    known, logs = memory(replace(topic(1), state="DIVERGED")), {THERE: LogRange(0, 20, 20)}

    with pytest.raises(GateNotMet, match=r"x-1-0 is DIVERGED") as told:
        require_copies("orders", left_of(LINK, known, logs, SHORTER, at_ms=1))

    assert "isthmus link recover orders" in told.value.hint
    require_copies("orders", left_of(LINK, known, logs, {}, at_ms=1))


def test_a_follower_that_has_more_than_its_source_is_no_copy() -> None:
    """Whether a lane has seen that or not; but what the source has got meanwhile is no more than it has."""
    (left,) = left_of(LINK, memory(topic(1)), {THERE: LogRange(0, 20, 20)}, SHORTER, at_ms=1)
    assert is_beyond(left)
    with pytest.raises(GateNotMet, match="the target has more than its source in x-1-0"):
        require_within("orders", [left], SHORTER)
    require_within("orders", [left], {HERE: LogRange(0, 20, 20)})
    assert not is_beyond(replace(left, target_end=17))


def test_a_lane_that_was_taken_from_its_lease_is_written_until_that_let_go_of_it() -> None:
    """As one that it has; of a lease that has ended neither is."""
    gone = LaneKey(TargetTopic("gone"), 0)
    lease = LeaseDocument(link="orders", slot=0, controller=1, generation=2, revision=3, lanes=(), parting=(gone,))
    assert writing_lanes(memory(lease), lambda topic: topic == "gone") == {gone}
    assert writing_lanes(memory(lease), lambda topic: topic == "other") == frozenset()
    assert writing_lanes(memory(replace(lease, parting=())), lambda _: True) == frozenset()
    ended = TaskDocument(link="orders", slot=0, controller=1, generation=2, ended_through=2, is_clean=True)
    assert writing_lanes(memory(lease, ended), lambda _: True) == frozenset()
