"""What MirrorMaker 2 may leave behind, made by hand: a partition goes on in its place, or is refused and told why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.sql import SparkSession

import isthmus
from isthmus.errors import GateNotMet, PlanRefused
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import Document, MapDocument, PauseDocument
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.link import LinkLedger
from isthmus.local import LocalCluster
from isthmus.memory.links import recollect
from isthmus.mirrormaker.predecessor import Predecessor
from isthmus.mirrormaker.takeover.execution import OnProgress, TakeoverSettings
from isthmus.mirrormaker.takeover.plan import LinkTakeover, Outcome, PartitionTakeover
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import Gap
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import LATEST, OffsetPolicy
from isthmus.model.state import LinkState
from isthmus.model.text.plain import plain
from isthmus.model.translation import MappedRange
from isthmus.topics.recording import build_document
from testing.brokers.acls import denied
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records import topics
from testing.records.flows import Flow, create, grow, numbered, positions, values
from testing.records.topics import SEPTEMBER, Given
from testing.repeating import repeating
from testing.runs.recovering import Interrupted, committed, cut_before_commit
from testing.runs.running import configuration_of
from testing.verbs import AsyncLinkOperations

pytestmark = pytest.mark.integration


class LeftBehind:
    """A flow with what MirrorMaker 2 left of it at the target: copies, and its positions."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.offsets_topic = f"mm2-offsets.{flow.source.alias}.internal"
        topics.create(flow.target.cluster, self.offsets_topic, partitions=2, cleanup_policy="compact")

    def topic(
        self,
        name: str,
        *,
        written: list[Given],
        copied: list[Given],
        committed: int | None = None,
        target_configs: Mapping[str, str] = MappingProxyType({}),
        **configs: str,
    ) -> str:
        """A topic of one partition, of which MirrorMaker 2 has acknowledged the record at an offset."""
        topic = f"{self.flow.stem}-{name}"
        create(self.flow.source, topic, partitions=1, **configs)
        create(self.flow.target, self.flow.remote(topic), partitions=1, **{**configs, **target_configs})
        topics.produce(self.flow.source.cluster, topic, written)
        topics.produce(self.flow.target.cluster, self.flow.remote(topic), copied)
        if committed is not None:
            self.commit(topic, {"offset": committed})
        return topic

    def commit(
        self,
        topic: str,
        value: Mapping[str, Any] | None,
        *,
        cluster: str | None = None,
        connector: str = "MirrorSourceConnector",
        partition: int = 0,
    ) -> None:
        """A record of Kafka Connect's, in the `partition` of its topic."""
        of_source = {"cluster": cluster or self.flow.source.alias, "partition": 0, "topic": topic}
        key = json.dumps([connector, of_source], separators=(",", ":")).encode()
        given = Given(key, None if value is None else json.dumps(value).encode(), [], SEPTEMBER)
        topics.produce(self.flow.target.cluster, self.offsets_topic, [given], partition=partition)

    def take_over(
        self,
        link: Link,
        *,
        workers: str | None = "mm2",
        on_progress: OnProgress = lambda *_: None,
        **settings: Any,
    ) -> LinkTakeover:
        """What becomes of it, if the group of the workers is called `workers` after the source, or not known."""
        predecessor = Predecessor(
            source_alias=self.flow.source.alias,
            offsets_topic=self.offsets_topic,
            worker_group=workers and f"{self.flow.source.alias}-{workers}",
        )
        chosen = TakeoverSettings(**{"quiet_s": 0.2, "patience_s": 0.5, **settings})
        one = AsyncLinkOperations(configuration_of(link), link.name)
        return asyncio.run(one.take_over(predecessor, chosen, on_progress))


def stretched(count: int) -> list[Given]:
    """Records a second apart."""
    return [each._replace(timestamp=SEPTEMBER + 1000 * n) for n, each in enumerate(numbered(count))]


def partitions_of(found: LinkTakeover, flow: Flow) -> dict[str, PartitionTakeover]:
    """The only partitions of topics, by what follows the stem in their names."""
    return {
        topic.source_topic.removeprefix(f"{flow.stem}-"): topic.partitions[0]
        for topic in found.topics
        if topic.partitions
    }


def test_each_partition_goes_on_in_its_place(flow: Flow, spark: SparkSession) -> None:
    """Doubled records, a position that is missing, one whose records are gone at the source, a topic that was never
    seen; groups go to their records by the map, and by time where that begins later. Nothing comes twice.
    """
    flow = flow.carrying("mapped")
    left = LeftBehind(flow)
    written = stretched(3_000)
    behind = left.topic("behind", written=written, copied=[*written[:2_000], *written[1_400:1_700]], committed=1_399)
    left.commit(behind, {"offset": 2_999}, cluster="another")
    left.topic("uncommitted", written=numbered(50), copied=numbered(30))
    gone = left.topic("gone", written=numbered(90), copied=numbered(20), committed=19)
    topics.delete_records(flow.source.cluster, gone, 60)
    table = [*written[:20], *written[10:15]]
    left.topic("table", written=written[:30], copied=table, committed=9, cleanup_policy="compact")
    renamed = left.topic("renamed", written=numbered(40), copied=[*numbered(30), *numbered(10)])
    for partition, (connector, offset) in enumerate((("new", 9), ("old", 34))):
        left.commit(renamed, {"offset": offset}, connector=connector, partition=partition)
    unseen = f"{flow.stem}-unseen"
    left.topic("empty", written=numbered(7), copied=[])
    create(flow.source, unseen, partitions=1)
    topics.produce(flow.source.cluster, unseen, numbered(5))
    groups = {f"{flow.stem}-{position}": position for position in (200, 1_500, 2_500)}
    consumers.commit(flow.source.cluster, {group: {(behind, 0): at} for group, at in groups.items()})
    link = flow.link(offsets=OffsetPolicy.MAPPED)

    shown = left.take_over(link, is_dry_run=True)
    found = left.take_over(link)
    assert (replace(shown, is_written=True), shown.is_written, found.is_complete) == (found, False, True)
    parts = partitions_of(found, flow)
    assert parts["behind"].found is not None
    assert parts["behind"].found.ranges == (MappedRange(400, 400, 1_600),)
    counted = {name: (p.committed, p.begin, plain(p)["beyond"], plain(p)["doubled"]) for name, p in parts.items()}
    assert counted == {
        "behind": (1_400, 2_000, 600, 300),
        "uncommitted": (-1, 30, 30, 0),
        "gone": (20, 60, 0, 0),
        "empty": (-1, -1, 0, 0),
        "table": (10, 15, 10, 5),
        "renamed": (10, 30, 20, 10),
    }
    assert [plain(parts[name])["repeated_to"] for name in ("behind", "table")] == [1_700, None]
    assert parts["gone"].gap == Gap(20, 60)
    assert {topic.outcome for topic in found.topics} == {Outcome.TAKEN_OVER, Outcome.NEW}

    with isthmus.open(configuration_of(link), spark=spark) as fabric:
        assert fabric.run(until="caught-up").exit_code == 0
        assert all(verdict.equal for verdict in fabric.verify().values())
        drills = [fabric.groups.drill(group) for group in groups]
    assert [(drill.skipped, drill.problem) for drill in drills] == [(0, None)] * 3

    there = {name: values(flow.target, flow.remote(f"{flow.stem}-{name}"), partitions=1)[0] for name in parts}
    numbers = {name: [int(value or b"") for value in found] for name, found in there.items()}
    assert numbers["behind"] == [*range(2_000), *range(1_400, 1_700), *range(2_000, 3_000)]
    assert numbers["uncommitted"] == [*range(50)]
    assert numbers["gone"] == [*range(20), *range(60, 90)]
    # The last of each key is that of the source, which MirrorMaker 2 would have come to as well.
    assert numbers["table"] == [*range(20), *range(10, 15), *range(15, 30)]
    assert numbers["renamed"] == [*range(30), *range(10), *range(30, 40)]
    assert numbers["empty"] == [*range(7)]
    assert len(values(flow.target, flow.remote(unseen), partitions=1)[0]) == 5
    carried = {at: positions(flow.target, group)[flow.remote(behind), 0] for group, at in groups.items()}
    # By time it is a minute earlier; by the map it is exact, and behind the place where the lane begins as well.
    assert carried == {200: 140, 1_500: 1_500, 2_500: 2_800}


def test_what_cannot_be_gone_on_with_is_paused(flow: Flow, spark: SparkSession) -> None:
    """Where the target lacks what was claimed, holds what is none of the source's, never held a record, does not exist,
    or the source is shorter than the position, nothing is copied until somebody decides. What Isthmus has begun by
    itself stays as it is.
    """
    left = LeftBehind(flow)
    written = numbered(100)
    left.topic("lacking", written=written, copied=[*written[:40], *written[41:80]], committed=79)
    foreign = [*written[:85], Given(None, b"of others", [], SEPTEMBER + 90), *written[85:90]]
    left.topic("foreign", written=written, copied=foreign, committed=79)
    left.topic("shorter", written=written[:50], copied=written[:60], committed=59)
    left.topic("elsewhere", written=written, copied=[], committed=79)
    nowhere = left.topic("nowhere", written=written, copied=[], committed=79)
    topics.delete(flow.target.cluster, flow.remote(nowhere))
    begun = left.topic("begun", written=written, copied=[])
    anew = [each._replace(timestamp=each.timestamp + 3_600_000) for each in written]
    left.topic("anew", written=anew, copied=written[:80], committed=79, cleanup_policy="compact")
    own_times = {"message_timestamp_type": "LogAppendTime"}
    left.topic("stamped", written=written, copied=written[:80], committed=79, target_configs=own_times)
    expired = left.topic("expired", written=written, copied=written[:60])
    topics.delete_records(flow.target.cluster, flow.remote(expired), 60)
    link = flow.link(offsets=OffsetPolicy.MAPPED)
    only = replace(link.topics, include=(type(link.topics.include[0]).parse(begun),))
    isthmus.open(configuration_of(replace(link, topics=only)), spark=spark).run(until="caught-up")

    found = left.take_over(link)
    assert not found.is_complete
    assert {topic.source_topic.rpartition("-")[2]: topic.outcome for topic in found.topics} == {
        "lacking": Outcome.REFUSED,
        "foreign": Outcome.REFUSED,
        "shorter": Outcome.REFUSED,
        "elsewhere": Outcome.REFUSED,
        "nowhere": Outcome.REFUSED,
        "begun": Outcome.BEGUN,
        "anew": Outcome.REFUSED,
        "expired": Outcome.REFUSED,
        "stamped": Outcome.REFUSED,
    }
    told = {name: each.problem.message for name, each in partitions_of(found, flow).items() if each.problem}
    assert "the first from source offset 40" in told["lacking"]
    assert "the first at target offset 85" in told["foreign"]
    # Of the three keys, the last record that was claimed: those before may be cleaned away at the target.
    assert "lacks 3 records" in told["anew"], told["anew"]
    assert "it is unknown which records it had copied" in told["expired"]
    assert "LogAppendTime" in told["stamped"]
    assert "before MirrorMaker 2's position 60" in told["shorter"]
    assert f"source offset 80, and {flow.remote(flow.stem)}-elsewhere-0 never held a record" in told["elsewhere"]
    (absent,) = [topic.problem for topic in found.topics if topic.source_topic == nowhere]
    assert absent is not None
    assert f"source offset 80, and the target has no topic {flow.remote(nowhere)}" in absent.message

    (again,) = [t for t in left.take_over(link, allows_foreign=True).topics if t.source_topic.endswith("foreign")]
    assert (again.outcome, again.partitions[0].begin) == (Outcome.TAKEN_OVER, 90)
    with isthmus.open(configuration_of(link), spark=spark) as fabric:
        fabric.run(until="caught-up")
        (progress,) = fabric.status()
    assert progress.state is not LinkState.ACTIVE
    counts = {
        "lacking": 79,
        "foreign": 91,
        "shorter": 60,
        "elsewhere": 0,
        "begun": 100,
        "anew": 80,
        "expired": 0,
        "stamped": 80,
    }
    for name, count in counts.items():
        assert len(values(flow.target, flow.remote(f"{flow.stem}-{name}"), partitions=1)[0]) == count


def test_who_has_not_stopped_is_left_alone(flow: Flow) -> None:
    """Workers in the group, an open transaction, no positions at all: nothing is written, and the reason is told."""
    left = LeftBehind(flow)
    topic = left.topic("moving", written=numbered(10), copied=numbered(5), committed=4)
    link = flow.link(offsets=OffsetPolicy.MAPPED)
    with (
        consumers.joined(flow.target.cluster, f"{flow.source.alias}-mm2", left.offsets_topic),
        pytest.raises(GateNotMet, match="has 1 worker"),
    ):
        left.take_over(link)

    writing = consumers.transactional(flow.target.cluster, topic)
    writing.begin_transaction()
    writing.produce(flow.remote(topic), b"open", partition=0)
    writing.flush()
    with pytest.raises(GateNotMet, match="a transaction is open in"):
        left.take_over(link)
    writing.abort_transaction()
    assert left.take_over(link, patience_s=30.0).topics[0].partitions[0].begin == 5

    topics.delete(flow.target.cluster, left.offsets_topic)
    with pytest.raises(PlanRefused, match="has no topic mm2-offsets"):
        left.take_over(link)


def test_nothing_at_all_is_not_a_flow_that_is_new(flow: Flow) -> None:
    """Where there is neither a position of the source nor a copy, MirrorMaker 2 is looked for in the wrong place: its
    topics would be copied once more beside. What the topic of positions knows instead is told.
    """
    left = LeftBehind(flow)
    topic = left.topic("copied", written=numbered(10), copied=[])
    left.commit(topic, {"offset": 4}, cluster="former")
    with pytest.raises(PlanRefused, match=f"of a source that is called {flow.source.alias}, only of former"):
        left.take_over(flow.link(offsets=OffsetPolicy.MAPPED))


def test_a_flow_that_began_late(flow: Flow) -> None:
    """MirrorMaker 2 was told to begin with what came (auto.offset.reset=latest): what it never copied of the beginning
    is not missing, what it left out later is. A partition that came since begins with its first record.
    """
    left = LeftBehind(flow)
    late = left.topic("late", written=numbered(50), copied=numbered(20, begin=20), committed=34)
    grow(flow.source, late, 2)
    left.topic("holed", written=numbered(50), copied=[*numbered(10, begin=20), *numbered(5, begin=31)], committed=34)
    link = flow.link(offsets=OffsetPolicy.MAPPED, start=LATEST)
    taken = left.take_over(link, is_dry_run=True)
    assert [each.ids.first_partitions for each in taken.topics if each.source_topic == late] == [1]
    found = partitions_of(taken, flow)
    assert (found["late"].begin, found["late"].problem) == (40, None)
    assert found["holed"].problem is not None
    assert "the first from source offset 30" in found["holed"].problem.message


def test_what_cannot_be_seen_is_not_new(west: LocalCluster, secured: LocalCluster, topic: Callable[[str], str]) -> None:
    """A topic that the source does not show, or that a side does not describe, stays paused until a right is granted:
    else a run would copy all of it again. One that is really gone is told.
    """
    flow = Flow.between(secured, west, topic("unseen"))
    left = LeftBehind(flow)
    names = {
        each: left.topic(each, written=numbered(10), copied=numbered(5), committed=4)
        for each in ("hidden", "obscure", "gone", "sound")
    }
    topics.delete(secured, names["gone"])
    link = flow.link(offsets=OffsetPolicy.MAPPED)
    with (
        denied(secured, ResourceType.TOPIC, names["hidden"], AclOperation.DESCRIBE),
        denied(secured, ResourceType.TOPIC, names["obscure"], AclOperation.DESCRIBE_CONFIGS),
    ):
        found = left.take_over(link)
    outcomes = {topic.source_topic.rpartition("-")[2]: topic.outcome for topic in found.topics}
    assert outcomes == {"hidden": Outcome.REFUSED, "obscure": Outcome.REFUSED, "sound": Outcome.TAKEN_OVER}
    assert (found.is_complete, found.gone, found.unselected) == (False, (names["gone"],), ())
    told = [topic.problem.in_full for topic in found.topics if topic.problem]
    assert any(f"Grant DESCRIBE on topic {names['hidden']}" in each for each in told), told
    paused = {each.topic for each in PauseDocument.find_all(asyncio.run(recollected(link)).values())}
    assert paused == {flow.remote(names[each]) for each in ("hidden", "obscure")}

    again = left.take_over(link)
    assert {topic.outcome for topic in again.topics} == {Outcome.TAKEN_OVER, Outcome.DONE_BEFORE}
    assert again.is_complete


def test_workers_of_an_unknown_group_are_waited_for(flow: Flow) -> None:
    """Connectors do not name the group of their workers: those of Kafka Connect at the target count, and no consumers,
    until somebody says which group it is.
    """
    left = LeftBehind(flow)
    left.topic("idle", written=numbered(10), copied=numbered(5), committed=4)
    link = flow.link(offsets=OffsetPolicy.MAPPED)
    group, target = f"{flow.source.alias}-connect", flow.target.cluster
    with consumers.worker(target, group):
        with pytest.raises(GateNotMet, match=f"group {group} has 1 worker") as refused:
            left.take_over(link, workers=None)
        assert "--workers-group" in refused.value.hint
        assert left.take_over(link, workers="mm2", is_dry_run=True).is_complete
        assert left.take_over(link, workers="", is_dry_run=True).is_complete
    with consumers.joined(target, f"{flow.stem}-reading", left.offsets_topic):
        assert left.take_over(link, workers=None, patience_s=30.0).is_complete


def test_other_connectors_may_go_on(flow: Flow) -> None:
    """Positions of other connectors in the same topic of Kafka Connect hold nobody up, however many; a position
    of this flow does.
    """
    left = LeftBehind(flow)
    topic = left.topic("idle", written=numbered(10), copied=numbered(5), committed=4)
    link = flow.link(offsets=OffsetPolicy.MAPPED)
    with repeating(lambda: left.commit(topic, {"offset": 7}, cluster="elsewhere")):
        assert left.take_over(link, workers="", is_dry_run=True).topics[0].partitions[0].begin == 5
    with (
        repeating(lambda: left.commit(topic, {"offset": 4})),
        pytest.raises(GateNotMet, match=f"{left.offsets_topic}-[01] grew by"),
    ):
        left.take_over(link, workers="", is_dry_run=True)


def test_who_has_gone_on_since_is_not_done_before(flow: Flow) -> None:
    """MirrorMaker 2 was started again after it had been taken over, and has copied more than the link: that would be
    copied twice. Up to where the link is, its positions tell nothing new.
    """
    left = LeftBehind(flow)
    topic = left.topic("back", written=numbered(10), copied=numbered(5), committed=3)
    link = flow.link(offsets=OffsetPolicy.MAPPED)
    assert left.take_over(link).topics[0].outcome is Outcome.TAKEN_OVER
    left.commit(topic, {"offset": 4})
    assert left.take_over(link).topics[0].outcome is Outcome.DONE_BEFORE
    left.commit(topic, {"offset": 5})
    (ahead,) = left.take_over(link).topics
    assert ahead.outcome is Outcome.REFUSED
    assert ahead.problem is not None
    assert "its position in partition 0 is 6, and the link has copied up to source offset 5" in ahead.problem.message


def test_what_was_said_before_a_commit_that_never_came_is_said_again(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A take-over that was cut off before it was committed counts: called again it writes the same once more, as
    brokers drop what was aborted.
    """
    left = LeftBehind(flow)
    left.topic("cut", written=numbered(10), copied=numbered(5), committed=4)
    link = flow.link(offsets=OffsetPolicy.MAPPED)
    cut_before_commit(monkeypatch)
    with pytest.raises(Interrupted):
        left.take_over(link)
    assert committed(flow.target.cluster, link.name) == set()
    assert left.take_over(link).topics[0].outcome is Outcome.DONE_BEFORE
    assert committed(flow.target.cluster, link.name) >= {"map", "topic"}


@pytest.mark.parametrize("is_late", [False, True], ids=["while comparing", "while taking over"])
def test_a_run_that_came_meanwhile(flow: Flow, monkeypatch: pytest.MonkeyPatch, is_late: bool) -> None:
    """Comparing takes a while. A controller that has begun topics since then has them; it is fenced only if it came in
    the last moment, and nothing is written either way.
    """
    left = LeftBehind(flow)
    topic = left.topic("late", written=numbered(10), copied=numbered(5), committed=4)
    link = flow.link(offsets=OffsetPolicy.MAPPED)
    ids = TopicIds(source_topic=SourceTopic(topic), source=uuid4(), target=uuid4(), is_mapped=True)
    own = build_document(link.name, TargetTopic(flow.remote(topic)), ids)
    came: list[str] = []
    fences: list[FencedWriter] = []

    async def come() -> None:
        """What a controller does before its tasks are there."""
        async with Client(link.target) as target:
            ledger = LinkLedger(target, link.name)
            await ledger.open()
            await ledger.write(own)
            ledger.close()

    def compared(what: str, _: int) -> None:
        if what.startswith("comparing") and not (came or is_late):
            came.append(what)
            with ThreadPoolExecutor() as beside:
                beside.submit(asyncio.run, come()).result(TERM_S)

    fence = FencedWriter.take_over

    async def taken_over(writer: FencedWriter) -> int:
        if is_late and not came:
            came.append("late")
            await come()
        fences.append(writer)
        return await fence(writer)

    monkeypatch.setattr(FencedWriter, "take_over", taken_over)
    with pytest.raises(PlanRefused, match="began to run link"):
        left.take_over(link, on_progress=compared)
    # The first is that of the controller itself.
    assert len(fences) == 1 + is_late
    documents = asyncio.run(recollected(link))
    assert documents[own.key] == own
    assert not any(isinstance(each, MapDocument) for each in documents.values())


async def recollected(link: Link) -> Mapping[str, Document]:
    """What the ledger has of a link."""
    async with Client(link.target) as target:
        return (await recollect(link.name, target)).documents
