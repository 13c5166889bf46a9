"""What a ledger says of a source that is lost is no less than what that held when it is said to have been heard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import Document, LinkDocument, ProgressDocument, TopicDocument, encode_document
from isthmus.ledger.documents.lastknown import KnownNamesDocument
from isthmus.ledger.records import Entry
from isthmus.memory.leaving import left_of
from isthmus.memory.links import HEARING_S, LinkMemory
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.links.lastknown import KnownLog, KnownNames, KnownTopic
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.spark.leases.telling import Telling

LINK = Link(
    name="l",
    source=Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",)),
    target=Cluster(alias="west", bootstrap_servers=("127.0.0.1:2",)),
    topics=TopicSettings(include=(TopicPattern.parse("*"),)),
)
LANES = tuple(LaneKey(TargetTopic("orders"), number) for number in range(2))
HEARD_MS = 3000
"""A lane that has heard nothing of its source for longer reports since when."""
BEGUN = (
    LinkDocument(link="l", source_cluster_id="E", target_cluster_id="W", producer_id=1, marker_producer_id=2),
    TopicDocument(
        link="l",
        source_topic=SourceTopic("orders"),
        source_topic_id=NO_TOPIC_ID,
        target_topic=TargetTopic("orders"),
        target_topic_id=NO_TOPIC_ID,
        state="ACTIVE",
    ),
)


@dataclass
class Partition:
    """A partition of the source, what its target has of it, and its lane as it reports itself."""

    history: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    copied: int = 0
    foreign: int = 0
    report: LaneReport | None = None
    is_leased: bool = False
    blocked_ms: int = 0

    @property
    def end(self) -> int:
        """Where the source ends now."""
        return self.history[-1][1]

    def end_at(self, at_ms: float) -> int:
        """Where it ended just before that."""
        return max((end for moment, end in self.history if moment < at_ms), default=0)


class World:
    """A source that is written to, a lease that copies and reports, and operators who pause it."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.entries: list[Entry] = []
        self.partitions = {key: Partition() for key in LANES}
        self.telling = Telling()
        self.generation = 1
        self.is_alive = True
        self.followed = LinkMemory("l")
        self.seen = 0
        for document in BEGUN:
            self.write(document)

    def write(self, document: Document) -> None:
        """A record of the ledger."""
        self.entries.append(Entry(len(self.entries), document.key, encode_document(document), self.now_ms))

    def passes(self, key: LaneKey, number: int) -> None:
        """Time passes."""
        self.now_ms += 1500 * number

    def grows(self, key: LaneKey, number: int) -> None:
        """Producers write to the source."""
        partition = self.partitions[key]
        partition.history.append((self.now_ms, partition.end + number))

    def begins(self, key: LaneKey, number: int) -> None:
        """The lease gets the lane, or has it anew."""
        partition = self.partitions[key]
        if self.is_alive and not partition.is_leased:
            partition.is_leased = True
            partition.report = LaneReport(key=key, state=LaneState.STARTING, position=partition.copied)
            partition.blocked_ms = 0

    def pauses(self, key: LaneKey, number: int) -> None:
        """An operator pauses the topic: the lease lets go of the lane."""
        if self.is_alive and self.partitions[key].is_leased:
            self.partitions[key].is_leased = False
            self.telling.forget_lanes([key])

    def copies(self, key: LaneKey, number: int) -> None:
        """The lane reads to the end of the source and copies some of it."""
        partition = self.partitions[key]
        if self.is_alive and partition.is_leased and partition.report is not None and not partition.foreign:
            partition.copied = min(partition.copied + number, partition.end)
            self.hears(partition, LaneState.ACTIVE)

    def is_written_to(self, key: LaneKey, number: int) -> None:
        """Somebody else writes to the target, and nobody notices that."""
        self.partitions[key].foreign += number

    def is_blocked(self, key: LaneKey, number: int) -> None:
        """The target refuses what the lane reads, or nothing is heard of the source: what was heard of it stays."""
        partition = self.partitions[key]
        if self.is_alive and partition.is_leased and partition.report is not None:
            states = (LaneState.BLOCKED, LaneState.SOURCE_UNAVAILABLE, LaneState.TARGET_UNAVAILABLE)
            if partition.report.state is LaneState.ACTIVE:
                # It has heard of the source until now.
                partition.blocked_ms = self.now_ms
                partition.report = replace(partition.report, source_end=partition.end, source_log_end=partition.end)
            partition.report = replace(partition.report, state=states[number % 3])

    def hears(self, partition: Partition, state: LaneState) -> None:
        """The lane is told where its source ends, at most so long ago as it may be."""
        assert partition.report is not None
        end = partition.end_at(self.now_ms - 1000 * HEARING_S)
        end = max(end, partition.copied, partition.report.source_end)
        partition.report = replace(
            partition.report,
            state=state,
            position=partition.copied,
            source_end=end,
            source_log_end=end,
            heard_ms=-1,
        )

    def reports(self, key: LaneKey, number: int) -> None:
        """The lease tells what changed, or all there is."""
        if not self.is_alive:
            return
        for partition in self.partitions.values():
            if not partition.is_leased or partition.report is None:
                continue
            if partition.report.state is LaneState.ACTIVE:
                self.hears(partition, LaneState.ACTIVE)
            elif partition.blocked_ms and self.now_ms - partition.blocked_ms > HEARD_MS:
                partition.report = replace(partition.report, heard_ms=partition.blocked_ms)
        told = [each.report for each in self.partitions.values() if each.report is not None]
        leased = {key for key, each in self.partitions.items() if each.is_leased}
        is_full = number == 9
        due = self.telling.due(told, leased, is_full=is_full)
        if due or is_full:
            self.write(
                ProgressDocument(
                    link="l", slot=0, controller=1, generation=self.generation, is_full=is_full, reports=tuple(due)
                )
            )
            self.telling.note_reported(due)

    def dies(self, key: LaneKey, number: int) -> None:
        """The task is killed; or another one begins in its place, with nothing yet."""
        self.is_alive = not self.is_alive
        if self.is_alive:
            self.generation += 1
            self.telling = Telling()
            for partition in self.partitions.values():
                partition.is_leased, partition.report = False, None

    def notes(self, key: LaneKey, number: int) -> None:
        """The controller writes down where the source's logs end."""
        logs = tuple(KnownLog(key.partition, 0, partition.end) for key, partition in self.partitions.items())
        topics = (KnownTopic(name="orders", replicas=1, logs=logs),)
        names = KnownNames(cluster_id="E", alias="east", link="l", seen_ms=self.now_ms, topics=topics)
        self.write(KnownNamesDocument(link="l", names=names))

    def look(self) -> None:
        """Whoever looks at the ledger now, or has followed it, is told no less than there was."""
        self.followed.take_all(self.entries[self.seen :])
        self.seen = len(self.entries)
        there = {
            (key.topic, key.partition): LogRange(0, one.copied + one.foreign, one.copied + one.foreign)
            for key, one in self.partitions.items()
        }
        ours = {(key.topic, key.partition): one.copied for key, one in self.partitions.items() if not one.foreign}
        for known in (LinkMemory.of("l", self.entries), self.followed.copy()):
            for left in left_of(LINK, known, there, None, self.now_ms, ours=ours):
                partition = self.partitions[LaneKey(left.topic, left.partition)]
                if left.missing_records >= 0:
                    assert left.source_age_s is not None
                    held = partition.end_at(self.now_ms - 1000 * left.source_age_s)
                    assert left.missing_records >= held - partition.copied


EVENTS: tuple[Callable[[World, LaneKey, int], None], ...] = (
    # What happens most comes up most.
    *(World.passes, World.grows, World.copies, World.reports) * 2,
    World.begins,
    World.pauses,
    World.is_blocked,
    World.is_written_to,
    World.dies,
    World.notes,
)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(LANES), st.integers(1, 9)), min_size=15, max_size=40)
)
def test_no_order_of_events_understates_what_is_missing(
    events: list[tuple[Callable[[World, LaneKey, int], None], LaneKey, int]],
) -> None:
    """Pauses, silences, deaths and looks in any order: of each partition at least as much is told as missing as its
    source held when it is said to have been heard, or that nobody knows.
    """
    world = World()
    for key in LANES:
        world.begins(key, 1)
        world.copies(key, 1)
    world.reports(LANES[0], 9)
    for event, key, number in events:
        event(world, key, number)
        world.look()
