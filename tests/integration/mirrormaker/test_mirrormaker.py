"""Tools of MirrorMaker 2, Kafka's own classes, against clusters that Isthmus keeps alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.kafka.log.contents import stored_records
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.mirrormaker_records import Heartbeat, KeyedRecord, checkpoint_of, heartbeat_of, offset_sync_of
from isthmus.model.links.progress import LinkProgress
from isthmus.model.loop import LoopState
from isthmus.model.text.plain import plain
from isthmus.run.following import Following
from testing.groups import consumers
from testing.patience import TERM_S, UNFENCED
from testing.records import topics
from testing.runs.mirrorclient import IDENTITY, answers, checkpoint_connector
from testing.runs.running import ends, patient, running

pytestmark = pytest.mark.integration

Chain = tuple[LocalCluster, LocalCluster, LocalCluster]
TopicNamer = Callable[[str], str]
RECORDS = 101_000
BEHIND = (0, 1_000, 100_000)


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    """Three clusters of their own, a, b and c: names of internal topics are the same for all links."""
    with (
        LocalCluster.start("a", brokers=1, heap_mb=256, properties=UNFENCED) as a,
        LocalCluster.start("b", brokers=1, heap_mb=256, properties=UNFENCED) as b,
        LocalCluster.start("c", brokers=1, heap_mb=256, properties=UNFENCED) as c,
    ):
        yield a, b, c


def configured(clusters: Chain, *links: str) -> Configuration:
    """The clusters and these links."""
    lines = [
        f"  {alias}: {{bootstrap_servers: '{cluster.admin_bootstrap_servers}'}}"
        for alias, cluster in zip("abc", clusters, strict=True)
    ]
    text = "\n".join(["clusters:", *lines, "links:", *(f"- {{{link}}}" for link in links)])
    return config.parse(text, environment={})


def numbered(begin: int, end: int) -> list[topics.Given]:
    """Records that say at which offset of the source they are."""
    return [topics.Given(b"k", b"%d" % n, [], topics.SEPTEMBER + n) for n in range(begin, end)]


async def _stored(cluster: LocalCluster, name: str) -> list[KeyedRecord]:
    async with Client(cluster.cluster()) as client:
        return [record async for record in stored_records(client, name)]


def stored(cluster: LocalCluster, name: str) -> list[KeyedRecord]:
    """All that an internal topic holds."""
    return asyncio.run(_stored(cluster, name))


async def is_at(cluster: LocalCluster, name: str, end: int) -> bool:
    """Whether a topic ends at this offset."""
    return await ends(cluster, name) == [end]


async def holds_records(cluster: LocalCluster, name: str) -> bool:
    """Whether anything was written to a topic."""
    return (await ends(cluster, name))[0] > 0


def test_a_chain_answers_as_with_mirror_maker(chain: Chain, topic: TopicNamer, spark: SparkSession) -> None:
    """Hops, upstream clusters and topics are those of three clusters in a row, though nothing is written at the first.

    When heartbeats come to the first cluster they are mirrored into the topic that stood in for them, and on.
    """
    a, b, c = chain
    name = topic("orders")
    topics.create(a, name)
    topics.produce(a, name, numbered(0, 50))
    rest = "naming: mm2}, mm2: true, groups: {include: [nobody]}, topics_interval_s: 0.5"
    forth = (
        f"name: ab, source: a, target: b, topics: {{include: [{name}], {rest}",
        f"name: bc, source: b, target: c, topics: {{include: [a.{name}], {rest}",
    )
    back = "name: ba, source: b, target: a, topics: {naming: mm2}, mm2: {heartbeats: true}"

    async def scenario() -> None:
        async with running(configured(chain, *forth), spark) as run:
            await run.until(lambda: is_at(c, f"b.a.{name}", 50))
            await run.until(lambda: is_at(c, "b.a.heartbeats", 0))
            await run.until(lambda: holds_records(c, "b.heartbeats"))
        assert topics.names(a) <= {name, "__consumer_offsets"}
        async with running(configured(chain, *forth, back), spark) as run:
            await run.until(lambda: holds_records(b, "a.heartbeats"))
            await run.until(lambda: holds_records(c, "b.a.heartbeats"))

    asyncio.run(scenario())
    questions = "upstreamClusters", "heartbeatTopics", "checkpointTopics", "remoteTopics", "remoteTopics b"
    hops = "replicationHops a", "replicationHops b", "replicationHops x"
    remote = {f"a.{name}", "a.heartbeats"}
    assert answers(b, *questions, *hops) == [
        {"a"},
        {"heartbeats", "a.heartbeats"},
        {"a.checkpoints.internal"},
        remote,
        set(),
        {"1"},
        {"-1"},
        {"-1"},
    ]
    # `isthmus status` counts as MirrorMaker 2's classes do.
    links = [plain(link) for link in Fabric(configured(chain, *forth)).status()]
    told = {each["topic"]: each for link in links for each in link["topics"]}
    assert (told[f"a.{name}"]["hops"], told[f"b.a.{name}"]["hops"]) == (1, 2)
    assert told[f"b.a.{name}"]["upstream_clusters"] == ["b", "a"]
    remote = {f"b.a.{name}", "b.heartbeats", "b.a.heartbeats"}
    assert answers(c, *questions, *hops) == [
        {"a", "b"},
        {"heartbeats", "b.heartbeats", "b.a.heartbeats"},
        {"b.checkpoints.internal"},
        remote,
        remote,
        {"2"},
        {"1"},
        {"-1"},
    ]
    for held, pair in (("b.heartbeats", ("a", "b")), ("b.a.heartbeats", ("b", "a")), ("heartbeats", ("b", "c"))):
        beats = [heartbeat_of(record) for record in stored(c, held)]
        assert {(beat.source_alias, beat.target_alias) for beat in beats} == {pair}


def test_a_ring_under_another_separator(chain: Chain, topic: TopicNamer, spark: SparkSession) -> None:
    """Heartbeats go round three clusters to each of the others, and stop before they come home; MirrorClient with the
    same separator tells hops, topics and positions from the names.
    """
    name = topic("ring")
    three = dict(zip("abc", chain, strict=True))
    ring = [("a", "b"), ("b", "c"), ("c", "a")]
    for cluster in chain:
        topics.create(cluster, name)
        topics.produce(cluster, name, numbered(0, 20))
        consumers.commit(cluster, {name: {(name, 0): 15}})
    links = [
        f"name: {name}-{source}{target}, source: {source}, target: {target}, topics: {{include: ['/.*{name}/'], "
        f"naming: {{mm2: {{separator: __}}}}}}, groups: {{include: [{name}]}}, topics_interval_s: 0.5, "
        "mm2: {heartbeats: true, checkpoints: true, checkpoints_interval_s: 0.5}"
        for source, target in ring
    ]
    # By one hop and by two: where a topic is, and what is before its name.
    ways = [way for source, at in ring for way in ((at, f"{source}__"), (dict(ring)[at], f"{at}__{source}__"))]

    async def are_told() -> bool:
        beats = [await holds_records(three[at], f"{path}heartbeats") for at, path in ways]
        return all(beats) and all([await is_translated(source, three[at]) for source, at in ring])

    async def is_translated(source: str, target: LocalCluster) -> bool:
        held = f"{source}__checkpoints__internal"
        told = [checkpoint_of(each) for each in await _stored(target, held)] if held in topics.names(target) else []
        return (f"{source}__{name}", 15) in {(each.key.topic, each.downstream) for each in told}

    async def scenario() -> None:
        async with running(configured(chain, *links), spark) as run:
            for at, path in ways:
                await run.until(partial(is_at, three[at], f"{path}{name}", 20))
            await run.until(are_told)
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    for at, cluster in three.items():
        paths = {path for place, path in ways if place == at}
        # Those with dots are of other links.
        found = {each for each in topics.names(cluster) if "heartbeats" in each and "." not in each}
        assert found == {"heartbeats", *(f"{path}heartbeats" for path in paths)}
        (near,) = (path for path in paths if path.count("__") == 1)
        (far,) = paths - {near}
        remote, one_hop, two_hops, translated, upstream, kept = answers(
            cluster,
            f"remoteTopics {near[0]}",
            f"replicationHops {near[0]}",
            f"replicationHops {far[3]}",
            f"translateOffsets {near[0]} {name}",
            "upstreamClusters",
            "checkpointTopics",
            properties=("replication.policy.separator=__",),
        )
        assert remote >= {f"{near}{name}", f"{far}{name}", f"{near}heartbeats", f"{far}heartbeats"}
        assert (one_hop, two_hops, upstream) == ({"1"}, {"2"}, {near[0], far[3]})
        assert f"{near}{name}-0:15:" in translated
        assert kept == {f"{near}checkpoints__internal"}


@pytest.mark.parametrize(("offsets", "others"), [("same", 0), ("mapped", 30)])
def test_java_translates_exactly_at_any_lag(
    chain: Chain, topic: TopicNamer, spark: SparkSession, offsets: str, others: int
) -> None:
    """Groups 0, 1,000 and 100,000 records behind are translated to their very record, by RemoteClusterUtils, one by one
    and by a pattern of their names: nothing is read again. Pairs of offsets name the records that are there, and a
    second run writes no checkpoint anew.
    """
    a, b, _ = chain
    name = topic(offsets)
    groups = {f"{name}-{behind}": RECORDS - behind for behind in BEHIND}
    topics.create(a, name)
    if others:
        topics.create(b, f"a.{name}")
        topics.produce(b, f"a.{name}", [topics.Given(None, b"of others", [], topics.SEPTEMBER)] * others)
    topics.produce(a, name, numbered(0, RECORDS))
    consumers.commit(a, {group: {(name, 0): position} for group, position in groups.items()})
    link = (
        f"name: {name}, source: a, target: b, topics: {{include: [{name}], naming: mm2, offsets: {offsets}}}, "
        f"groups: {{include: ['{name}*'], way: mapped}}, mm2: {{checkpoints: true, offset_syncs: target}}"
    )
    fabric = Fabric(configured(chain, link), spark=spark)
    planned = [change.subject for link_plan in fabric.plan().links for change in link_plan.loop_changes]
    assert set(planned) <= {"topic a.checkpoints.internal of b", "topic mm2-offset-syncs.a.internal of b"}
    assert fabric.run(until="caught-up").exit_code == 0
    (told,) = ([change.subject for change in plan.changes] for plan in fabric.plan().links)
    assert told == []

    *found, at_once = answers(b, *(f"translateOffsets a {group}" for group in groups), f"translateGroups a {name}-.+")
    assert found == [{f"a.{name}-0:{position + others}:"} for position in groups.values()]
    assert at_once == {f"{group}@a.{name}-0:{position + others}:" for group, position in groups.items()}
    for group, position in list(groups.items())[1:]:
        assert first_read(b, group, f"a.{name}", position + others) == b"%d" % position
    pairs = [pair for pair in map(offset_sync_of, stored(b, "mm2-offset-syncs.a.internal")) if pair.key.topic == name]
    assert [pair.upstream for pair in pairs] == sorted({pair.upstream for pair in pairs})
    assert (pairs[0].upstream, pairs[-1].upstream) == (0, RECORDS - 1)
    assert {pair.downstream - pair.upstream for pair in pairs} == {others}

    written = len(stored(b, "a.checkpoints.internal"))
    consumers.commit(a, {f"{name}-0": {(name, 0): 17}})
    assert fabric.run(until="caught-up").exit_code == 0
    (again,) = stored(b, "a.checkpoints.internal")[written:]
    assert (checkpoint_of(again).upstream, checkpoint_of(again).downstream) == (17, 17 + others)


def test_offset_syncs_topics_on_target(chain: Chain, topic: TopicNamer, spark: SparkSession, tmp_path: Path) -> None:
    """MirrorMaker 2's own checkpoint connector translates by the pairs of offsets of a mapped topic: exactly at the
    end, and never beyond the place of a group that is behind. They are kept at the target, and none at the source.
    """
    translates(chain, topic("pairs"), spark, tmp_path, location="target", syncs="mm2-offset-syncs.a.internal")


def test_offset_syncs_topics_on_source(chain: Chain, topic: TopicNamer, spark: SparkSession, tmp_path: Path) -> None:
    """The same by pairs that are kept at the source, and none at the target."""
    translates(chain, topic("pairs"), spark, tmp_path, location="source", syncs="mm2-offset-syncs.b.internal")


def translates(chain: Chain, name: str, spark: SparkSession, folder: Path, *, location: str, syncs: str) -> None:
    """See that MirrorMaker 2's connector translates positions of a mapped topic by pairs at one side."""
    a, b, _ = chain
    at, other = (b, a) if location == "target" else (a, b)
    groups = {f"{name}-end": 5_000, f"{name}-behind": 4_000}
    topics.create(a, name)
    topics.create(b, f"a.{name}")
    topics.produce(b, f"a.{name}", [topics.Given(None, b"of others", [], topics.SEPTEMBER)] * 7)
    topics.produce(a, name, numbered(0, 5_000))
    consumers.commit(a, {group: {(name, 0): position} for group, position in groups.items()})
    link = (
        f"name: {name}, source: a, target: b, topics: {{include: [{name}], naming: mm2, offsets: mapped}}, "
        f"mm2: {{offset_syncs: {location}}}"
    )
    before = {each for each in topics.names(other) if each.startswith("mm2-offset-syncs")}
    assert Fabric(configured(chain, link), spark=spark).run(until="caught-up").exit_code == 0

    assert syncs in topics.names(at)
    assert {each for each in topics.names(other) if each.startswith("mm2-offset-syncs")} == before
    with checkpoint_connector(a, b, name, name, folder, location=location):
        deadline = time.monotonic() + 2 * TERM_S
        while not groups.keys() <= checkpointed(b):
            assert time.monotonic() < deadline, (folder / "connect.log").read_text()
            time.sleep(0.2)
    (at_end,), (behind,) = answers(b, *(f"translateOffsets a {group}" for group in groups))
    assert at_end == f"a.{name}-0:5007:"
    assert 7 < int(behind.split(":")[1]) <= 4_007


def checkpointed(cluster: LocalCluster) -> set[str]:
    """The groups that have checkpoints of cluster a."""
    if "a.checkpoints.internal" not in topics.names(cluster):
        return set()
    return {checkpoint_of(record).key.group for record in stored(cluster, "a.checkpoints.internal")}


def first_read(cluster: LocalCluster, group: str, name: str, position: int) -> bytes | None:
    """What a consumer reads first that goes on from a position."""
    member = consumers.consumer(cluster, group)
    try:
        member.assign([TopicPartition(name, 0, position)])
        message = member.poll(TERM_S)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        member.close()


def test_settings_are_followed_and_what_is_wrong_is_told(chain: Chain, topic: TopicNamer, spark: SparkSession) -> None:
    """Heartbeats begin while the link runs, and without heartbeats_replication none of the source come. A topic that is
    not compacted is written to all the same, and the loop says what is wrong with it; when that is mended it is active.
    """
    a, _, c = chain
    name = topic("followed")
    topics.create(a, name)
    if "heartbeats" in topics.names(c):
        topics.delete(c, "heartbeats")
    topics.create(c, "heartbeats", cleanup_policy="delete")
    if "heartbeats" not in topics.names(a):
        topics.create(a, "heartbeats", cleanup_policy="compact")
    rest = f"name: {name}, source: a, target: c, topics: {{include: [{name}], naming: mm2}}"
    beats = "heartbeats: true, heartbeats_interval_s: 0.2, heartbeats_replication: false"
    written = [configured(chain, rest)]

    async def scenario() -> None:
        following = Following(lambda: written[-1], is_constant=True)
        async with running(written[0], spark, following=following, timings=patient(follow_s=0.2)) as run:
            await run.until(lambda: is_at(c, f"a.{name}", 0))
            assert not await holds_records(c, "heartbeats")
            written.append(configured(chain, f"{rest}, mm2: {{{beats}}}"))
            await run.until(lambda: holds_records(c, "heartbeats"))
            await run.until(lambda: _state(run.links) is LoopState.IN_ERROR)
            (loop,) = (loop for loop in run.links[0].loops if loop.loop == "mm2-heartbeats")
            assert loop.problem is not None
            assert "cleanup.policy=delete" in loop.problem.message
            topics.configure(c, "heartbeats", cleanup_policy="compact")
            await run.until(lambda: _state(run.links) is LoopState.ACTIVE)
            assert [told.topic for told in run.links[0].topics] == [f"a.{name}"], "those of the source are left alone"

    asyncio.run(scenario())


def _state(links: tuple[LinkProgress, ...]) -> LoopState | None:
    return next((loop.state for link in links for loop in link.loops if loop.loop == "mm2-heartbeats"), None)


def test_names_that_stay_have_heartbeats_too(chain: Chain, topic: TopicNamer, spark: SparkSession) -> None:
    """With names as they are, as with IdentityReplicationPolicy, heartbeats of the source still bear its alias: also
    where offsets are mapped. Checkpoints name the topics as they are.
    """
    a, _, c = chain
    name = topic("kept")
    topics.create_both(a, c, name)
    if "heartbeats" not in topics.names(a):
        topics.create(a, "heartbeats", cleanup_policy="compact")
    key, value = Heartbeat("b", "a", topics.SEPTEMBER).record
    topics.produce(a, "heartbeats", [topics.Given(key, value, [], topics.SEPTEMBER)])
    topics.produce(a, name, numbered(0, 20))
    consumers.commit(a, {name: {(name, 0): 15}})
    link = (
        f"name: {name}, source: a, target: c, topics: {{include: [{name}], offsets: auto}}, "
        f"groups: {{include: [{name}]}}, mm2: true"
    )
    assert Fabric(configured(chain, link), spark=spark).run(until="caught-up").exit_code == 0

    questions = "replicationHops a", f"translateOffsets a {name}", "remoteTopics a"
    hops, translated, remote = answers(c, *questions, properties=(IDENTITY, "source.cluster.alias=a"))
    assert (hops, translated) == ({"1"}, {f"{name}-0:15:"})
    assert {name, "a.heartbeats"} <= remote
    assert key in {record.key for record in stored(c, "a.heartbeats")}
