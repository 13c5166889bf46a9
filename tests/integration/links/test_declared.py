"""Links and namespaces that are declared on clusters, not in a file: run, changed from both sides, and merged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from isthmus.config.manifest import read_manifest
from isthmus.doctor.semantics import SemanticsLoop
from isthmus.errors import ClusterError, ConfigError, IsthmusError, PlanRefused
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import DeclarationDocument
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.link import read_documents
from isthmus.ledger.topic import ensure_topic
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.loops.loop import LinkView
from isthmus.memory import declarations as declaring
from isthmus.memory.declarations import Declarations
from isthmus.memory.filtering import Filters
from isthmus.memory.links import recollect
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.links.declaration import SEMANTICS, Declaration, attachment
from isthmus.model.links.lastknown import KnownLog
from isthmus.model.links.pair import PairState
from isthmus.model.links.writability import KeptBy
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import LEDGER_TOPIC
from isthmus.model.registers import DELETED, SETTINGS
from isthmus.model.state import LinkState
from isthmus.model.text.plain import plain
from isthmus.run.following import Following
from isthmus.topics.plan import LinkPlan
from testing.brokers.proxy import HOST, Proxy
from testing.groups.carrying import records
from testing.links.controllers import leases_of
from testing.records import topics
from testing.runs.declaring import Namer, cut, maps, remembers, written
from testing.runs.declaring import both as both
from testing.runs.declaring import name as name
from testing.runs.running import Running, configuration_of, ends, link_of, patient, running
from testing.values.parted import documents
from testing.verbs import AsyncDeclaredLinks, open_declarations

pytestmark = pytest.mark.integration

Values = Callable[[Declaration], dict[str, Any]]


async def declared_at(cluster: Cluster, link: str) -> dict[str, object]:
    """What one cluster's ledger says of a link, by register."""
    async with Client(cluster) as client:
        documents = (await read_documents(client)).values()
    (found,) = DeclarationDocument.find_all(documents, link)
    return {register.name: register.decoded for register in found.registers}


async def attached(run: Running, fabric: Fabric, pair: NamespaceMap, beside: NamespaceMap, west: LocalCluster) -> None:
    """Have a namespace follow too, until its topic has come, while another one of the link follows all the time."""
    await run.until(lambda: bool(run.links) and run.links[0].state_of(beside) is PairState.FOLLOWING)
    name, seen = run.links[0].link, set[LinkState | PairState]()
    before = await leases_of(west, name)

    def follows() -> bool:
        (link,) = run.links
        seen.update((link.state, link.state_of(beside)))
        return pair in link.namespaces and link.lag_records == 0 and link.state_of(pair) is PairState.FOLLOWING

    await asyncio.to_thread(fabric.declarations.attach, name, [pair])
    await run.until(follows)
    assert seen == {LinkState.ACTIVE, PairState.FOLLOWING}
    # What comes may get a slot of its own.
    assert before.items() <= (await leases_of(west, name)).items(), "leases began anew"


async def detached(run: Running, fabric: Fabric, pair: NamespaceMap, beside: NamespaceMap, west: LocalCluster) -> None:
    """Have a namespace follow no more. The leases of another one of the link go on, and it follows all the time."""
    name, seen = run.links[0].link, set[LinkState | PairState]()
    before = await leases_of(west, name)
    leaving = asyncio.create_task(asyncio.to_thread(fabric.link(name).promoter([pair]).detach))

    def is_gone() -> bool:
        (link,) = run.links
        seen.update((link.state, link.state_of(beside)))
        return leaving.done() and leaving.result().is_done and pair not in link.namespaces

    await run.until(is_gone)
    assert seen == {LinkState.ACTIVE, PairState.FOLLOWING}
    assert await leases_of(west, name) == before, "leases began anew"


def test_a_cluster_that_comes_into_the_file_is_followed(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession
) -> None:
    """What is declared on it runs, as of the clusters that were written when the run began."""
    topics.create(east, f"{name}.a-1")
    topics.produce(east, f"{name}.a-1", records(20))
    Fabric(both).declarations.create(name, source="east", target="west", maps=maps(f"{name}.a-:{name}.x-"))
    written = [replace(both, clusters=(both.cluster("east"),)).written]

    async def is_copied() -> bool:
        return await ends(west, f"{name}.x-1") == [20]

    async def scenario() -> None:
        following = Following(lambda: written[-1], is_constant=True, written=written[0])
        async with running(written[0], spark, following=following, timings=patient(follow_s=0.2)) as run:
            await run.until(lambda: bool(run.counts))
            assert run.links == ()
            written.append(both.written)
            await run.until(is_copied)
            await asyncio.to_thread(Fabric(both).declarations.delete, name)
            await run.until(lambda: run.links == ())

    asyncio.run(scenario())


def test_what_a_newer_release_declared_is_refused_at_every_look(
    both: Configuration, west: LocalCluster, name: str
) -> None:
    """Whoever follows the ledger does not go on behind it as if it were not there, until it is replaced."""
    key = f"{DeclarationDocument.KIND}/{name}/@newer".encode()

    def said(value: bytes | None) -> None:
        topics.produce(west, LEDGER_TOPIC, [topics.Given(key, value, [], topics.SEPTEMBER)])

    async def scenario() -> None:
        async with ClientSession() as session:
            declarations = Declarations(both.clusters, session, both.ledger)
            await ensure_topic(declarations.client("west"))
            await declarations.look()
            said(b'{"schema_version": 99}')
            for _ in range(2):
                with pytest.raises(PlanRefused, match="has schema version 99"):
                    await declarations.look()
            said(None)
            await declarations.look()

    try:
        asyncio.run(scenario())
    finally:
        # No other test is to be refused for it.
        said(None)


def file_of(east: LocalCluster, west: LocalCluster, folder: Path) -> Path:
    """A file with both clusters and no link."""
    file = folder / "isthmus.json"
    clusters = {each.name: {"bootstrap_servers": each.bootstrap_servers} for each in (east, west)}
    file.write_text(json.dumps({"clusters": clusters}))
    return file


def assert_opened_as_by_commands(file: Path, name: str) -> None:
    """A program that opens a file has what is declared, unless it says otherwise; comparing nothing is refused."""
    opened = open_fabric(file)
    assert [each.name for each in opened.links()] == [name]
    (found,) = opened.status()
    assert plain(found)["pairs"][0]["kept_by"] == KeptBy.AGREED_ONLY
    with pytest.raises(ConfigError, match="no link to be compared"):
        open_fabric(file, declared=False).verify()


def test_a_declared_link_is_run_and_followed(
    both: Configuration,
    east: LocalCluster,
    west: LocalCluster,
    name: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """A run without a link in its file runs it; what is attached, detached and deleted meanwhile comes and goes. What
    is attached or detached disturbs nothing else: other leases go on, and their pairs follow all the time. A link ends
    that was deleted while the target could not be reached.
    """
    timings = patient(follow_s=0.2)
    fabric = Fabric(replace(both, timings=patient(calm_s=0.5)))
    for stem in ("a", "b"):
        topics.create(east, f"{name}.{stem}-1")
        topics.produce(east, f"{name}.{stem}-1", records(20))
    first, second = maps(f"{name}.a-:{name}.x-", f"{name}.b-:{name}.y-")
    fabric.declarations.create(
        name, source="east", target="west", maps=[first], settings={"limits.bytes_per_s": "1GiB"}
    )
    opened = open_fabric(both, declared=True)
    (link,) = [link for link in opened.links() if link.name == name]
    assert link.limits.bytes_per_s == 1 << 30
    assert_opened_as_by_commands(file_of(east, west, tmp_path), name)
    assert opened.configuration.declared is not None
    assert name in opened.configuration.declared
    only = replace(opened.configuration, links=(link,))
    others = {each.name for each in opened.links()} - {name}
    assert not others, "a test before left links behind"

    async def is_at(topic: str, end: int) -> bool:
        return await ends(west, topic) == [end]

    async def scenario() -> None:
        async with running(only, spark, following=Following(written=only.written), timings=timings) as run:
            await run.until(lambda: is_at(f"{name}.x-1", 20))
            await attached(run, fabric, second, first, west)
            assert await is_at(f"{name}.y-1", 20)
            await run.until(lambda: remembers(both, "west", "east", name))
            await run.until(lambda: remembers(both, "east", "west", name))
            await detached(run, fabric, first, second, west)
            assert {each.topic for each in run.links[0].topics} == {f"{name}.y-1"}
            for stem in ("a", "b"):
                await asyncio.to_thread(topics.produce, east, f"{name}.{stem}-1", records(5))
            await run.until(lambda: is_at(f"{name}.y-1", 25))
            # Until then both ends may be of an earlier look, and the next one sees the records at the source first.
            await run.until(lambda: run.links[0].topics[0].partitions[0].source_end == 25)
            assert await is_at(f"{name}.x-1", 20)
            await attached(run, fabric, first, second, west)
            assert await is_at(f"{name}.x-1", 25)
            await asyncio.to_thread(Fabric(cut(both, "west")).declarations.delete, name)
            await run.until(lambda: run.links == ())

    asyncio.run(scenario())
    with pytest.raises(ConfigError, match=f"no link {name} is declared"):
        fabric.declarations.describe(name)
    clusters_out_of_reach_are_remembered(both, name)
    # What was reserved stays reserved, and can be released and taken back now.
    namespaces = fabric.cluster("west").namespaces
    for target in (first.target, second.target):
        assert namespaces.describe(target).is_reserved
        assert not namespaces.update(target, reserved=False).is_reserved
        namespaces.delete(target)
    for source in (first.source, second.source):
        fabric.cluster("east").namespaces.delete(source)


def clusters_out_of_reach_are_remembered(both: Configuration, name: str) -> None:
    """While a cluster cannot be reached, the other one tells how it stood; of one that nobody saw, nothing."""
    now = Fabric(both).cluster("east").describe()
    known = Fabric(cut(both, "east")).cluster("east").last_known()
    assert (known.cluster.cluster_id, known.cluster.brokers, known.kept_by) == (now.cluster_id, 1, "west")
    assert known.cluster.versions == (now.brokers[0].version,)
    assert known.cluster.topics > 0
    (seen,) = [each for each in known.names if each.link == name]
    remembered = {topic.name: topic for topic in seen.topics}
    # It is looked at once a minute: what was attached then is told, before or after five more records came.
    assert set() < remembered.keys() <= {f"{name}.a-1", f"{name}.b-1"}
    assert {each.logs for each in remembered.values()} <= {(KnownLog(0, 0, end),) for end in (20, 25)}
    (copies,) = [each for each in Fabric(cut(both, "west")).cluster("west").last_known().names if each.link == name]
    assert {topic.name for topic in copies.topics} <= {f"{name}.x-1", f"{name}.y-1"}
    nobody = replace(both.cluster("east"), alias="north")
    others = Configuration(clusters=(*both.clusters, nobody), links=())
    with pytest.raises(ConfigError, match="nothing is remembered of a cluster north: asked were east, west"):
        Fabric(others).cluster("north").last_known()


def test_both_sides_change_a_link_while_they_are_cut_apart(
    both: Configuration, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What either side said of different things holds everywhere afterwards; of the same thing, one of the two, and the
    other one is told with its author until somebody settles it.
    """
    fabric = Fabric(both)
    (each,) = maps(f"{name}.")
    fabric.declarations.create(name, source="east", target="west", maps=[each])
    at_east, at_west = Fabric(cut(both, "west")).declarations, Fabric(cut(both, "east")).declarations

    seen = at_east.update(name, settings={"limits.bytes_per_s": 1000, "on_data_gap": "continue"})
    assert set(seen.away) == {"west"}
    seen = at_west.update(name, settings={"topics_interval_s": 3.0, "on_data_gap": "stop"})
    assert set(seen.away) == {"east"}
    assert "limits.bytes_per_s" not in seen.declaration.settings

    merged = fabric.declarations.describe(name)
    settings = merged.declaration.settings
    assert (settings["limits.bytes_per_s"], settings["topics_interval_s"]) == (1000, 3.0)
    assert set(merged.behind) == {"east", "west"}
    # The later word holds, and the other one is told.
    assert settings["on_data_gap"] == "stop"
    (pair,) = merged.overruled["east"]
    assert [register.decoded for register in pair] == ["continue", "stop"]

    # Whoever runs the link has both clusters know everything, and warns of what was said in vain.
    asyncio.run(healed(both))
    after = fabric.declarations.update(name, settings={"compaction_holes_max": 7})
    assert (after.behind, after.overruled) == ((), merged.overruled)
    (told,) = [each.message for each in caplog.records if each.message.startswith(f"link {name}: ")]
    own, other = pair
    assert own.as_news in told
    assert other.as_news in told
    for alias in ("east", "west"):
        held = asyncio.run(declared_at(both.cluster(alias), name))
        assert {key.removeprefix("settings/"): value for key, value in held.items() if key.startswith("settings/")} == {
            "limits.bytes_per_s": 1000,
            "topics_interval_s": 3.0,
            "on_data_gap": "stop",
            "compaction_holes_max": 7,
        }
    assert fabric.declarations.update(name, settings={"on_data_gap": "stop"}).overruled == {}


async def healed(both: Configuration) -> None:
    """Have the clusters know what each other was told, as a run does."""
    async with open_declarations(both) as (declarations, declared):
        await declarations.heal(declared, ())


def test_a_run_gives_way_to_who_declares_something(
    both: Configuration, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would heal it leaves for its next look: whoever is at it is not fenced again."""
    links = Fabric(both).declarations
    links.create(name, source="east", target="west", maps=maps(f"{name}."), validate=False)
    Fabric(cut(both, "west")).declarations.update(name, settings={"topics_interval_s": 3.0})
    look, tried = declaring._Place._look, []

    async def late(place: declaring._Place) -> None:
        tried.append(place.alias)
        await look(place)
        await FencedWriter(place.client, name, role=declaring._ROLE).take_over()

    async def work() -> None:
        async with open_declarations(both) as (declarations, declared):
            with monkeypatch.context() as patch:
                patch.setattr(declaring._Place, "_look", late)
                await declarations.heal(declared, ())
            assert tried == ["west"]
            await declarations.heal(declared, ())

    asyncio.run(work())
    assert links.describe(name).behind == ()


def test_what_is_attached_while_its_cluster_is_away_is_reserved_there(both: Configuration, name: str) -> None:
    """Once it answers, by whoever runs the link or by the command that detaches it again."""
    first, second = maps(f"{name}.a-:{name}.x-", f"{name}.b-:{name}.y-")
    Fabric(both).declarations.create(name, source="east", target="west", maps=[])
    at_east, there = Fabric(cut(both, "west")).declarations, Fabric(both).cluster("west").namespaces
    at_east.attach(name, [first])
    asyncio.run(healed(both))
    assert there.describe(first.target).is_reserved
    at_east.attach(name, [second])
    with pytest.raises(ConfigError, match="no topic namespace"):
        there.describe(second.target)
    Fabric(both).link(name).promoter([second]).detach()
    assert there.describe(second.target).is_reserved


def test_topics_that_go_on_mapped_are_told(both: Configuration, name: str) -> None:
    """Whoever describes a link sees which of its topics an operator had go on behind what only the target has."""
    links = Fabric(both).declarations
    made = links.create(name, source="east", target="west", maps=maps(f"{name}."), validate=False)
    assert made.parted is None
    assert links.describe(name).parted == ()
    asyncio.run(written(both.cluster("west"), *documents(f"{name}.orders", link=name)))
    parted = plain(links.describe(name))["parted"]
    assert parted is not None
    (found,) = parted
    assert (found["topic"], found["by"], found["partitions"][0]["last_shared"]) == (f"{name}.orders", "kate", 20)
    assert Fabric(cut(both, "west")).declarations.describe(name).parted is None


def test_two_operators_at_once(both: Configuration, name: str) -> None:
    """Changes of different things all hold, whoever is first; who changes what another one just changed is told."""
    Fabric(both).declarations.create(name, source="east", target="west", maps=maps(f"{name}."))
    wanted = [
        ("limits.bytes_per_s", 7),
        ("topics_interval_s", 2.0),
        ("compaction_holes_max", 9),
        ("on_data_gap", "stop"),
    ]

    def change(setting: tuple[str, object]) -> IsthmusError | None:
        for _ in range(20):
            try:
                Fabric(both).declarations.update(name, settings=dict([setting]))
            except IsthmusError as error:
                last = error
            else:
                return None
        return last

    with ThreadPoolExecutor(len(wanted)) as threads:
        assert list(threads.map(change, wanted)) == [None] * len(wanted)
    assert dict(Fabric(both).declarations.describe(name).declaration.settings) == dict(wanted)

    def late(_: Declaration) -> dict[str, Any]:
        # Somebody is quicker, after this one has looked and before it writes.
        with ThreadPoolExecutor(1) as another:
            another.submit(Fabric(both).declarations.update, name, settings={"limits.bytes_per_s": 8}).result()
        return {f"{SETTINGS}limits.bytes_per_s": 9, f"{SETTINGS}topics_interval_s": 4.0}

    with pytest.raises(PlanRefused, match=r"was changed meanwhile: .* set settings/limits\.bytes_per_s to 8") as told:
        asyncio.run(AsyncDeclaredLinks(both).change(name, late))
    assert f"isthmus link describe {name}" in told.value.hint
    settings = Fabric(both).declarations.describe(name).declaration.settings
    assert (settings["limits.bytes_per_s"], settings["topics_interval_s"]) == (8, 2.0)


def test_two_operators_of_a_link_of_the_file_at_once(east: LocalCluster, west: LocalCluster, topic: Namer) -> None:
    """Who changes filters or settings that somebody has changed since he looked is told by whom and when; looked at
    again they can be changed, and reset only by who has seen them.
    """
    link = link_of(east.cluster(), west.cluster(), topic("seen"), name=topic("contested"))
    fabric = Fabric(configuration_of(link))
    given, one = Filters(topics_exclude=("other",)), fabric.link(link.name)
    nothing, unset = fabric.filters(link.name), one.settings()
    first = fabric.filter(link.name, Filters(topics_exclude=("first",)))
    one.change_settings({"limits.bytes_per_s": 7})
    told = r"have changed since they were read: \S+@\S+ changed them at 2\d{3}-"
    with pytest.raises(PlanRefused, match=f"filters of link {link.name} {told}"):
        fabric.filter(link.name, given, known=nothing)
    with pytest.raises(PlanRefused, match=f"settings of link {link.name} {told}"):
        one.change_settings({"limits.bytes_per_s": 8}, known=unset)
    assert fabric.filters(link.name) == first
    assert one.settings().changed == {"limits.bytes_per_s": 7}
    seen = one.settings()
    assert fabric.filter(link.name, given, known=first).topics_exclude == ("other",)
    with pytest.raises(PlanRefused, match="filters of link"):
        fabric.filter(link.name, Filters(), known=first)
    fabric.filter(link.name, Filters())
    one.change_settings({}, reset=True, known=seen)
    with pytest.raises(PlanRefused, match="they were reset"):
        one.change_settings({"limits.bytes_per_s": 8}, known=seen)
    assert fabric.filters(link.name).is_as_written


def test_a_cluster_that_goes_away_in_the_middle(both: Configuration, east: LocalCluster, name: str) -> None:
    """Each verb that changes a link tells which cluster did not answer; what the other one has learned holds, and the
    next call has both know it.
    """
    (port,) = free_ports(1)
    way = replace(both.cluster("east"), addresses=((east.bootstrap_servers, f"{HOST}:{port}"),))
    shaky = replace(both, clusters=(way, both.cluster("west")))
    each = maps(f"{name}.")
    Fabric(both).declarations.create(name, source="east", target="west", maps=each)
    verbs: dict[str, Values] = {
        "update": lambda _: {f"{SETTINGS}compaction_holes_max": 7},
        "detach": lambda _: {attachment(each[0]): False},
        "reattach": lambda _: {attachment(each[0]): True},
        "delete": lambda _: {DELETED: True, attachment(each[0]): False},
    }
    for verb, values in verbs.items():
        way_there = ExitStack()
        way_there.enter_context(Proxy(port, int(east.bootstrap_servers.rpartition(":")[2])))

        def cut_off(known: Declaration, values: Values = values, way_there: ExitStack = way_there) -> dict[str, Any]:
            way_there.close()
            return values(known)

        with pytest.raises(ClusterError) as told:
            asyncio.run(AsyncDeclaredLinks(shaky).change(name, cut_off))
        assert told.value.cluster == "east", verb
        held = {alias: asyncio.run(declared_at(both.cluster(alias), name)) for alias in ("east", "west")}
        wanted = values(Declaration(name=name, registers=()))
        assert wanted.items() <= held["west"].items(), verb
        links = AsyncDeclaredLinks(both)
        again = links.delete(name) if verb == "delete" else links.change(name, values)
        assert asyncio.run(again).behind == ()
        held = {alias: asyncio.run(declared_at(both.cluster(alias), name)) for alias in ("east", "west")}
        assert held["east"] == held["west"], verb
    with pytest.raises(ConfigError, match=f"no link {name} is declared"):
        Fabric(both).declarations.delete(name)


def test_a_downgraded_cluster_is_told(both: Configuration, name: str) -> None:
    """A link goes by what its clusters could keep when it was declared, until an operator accepts less."""
    links = Fabric(both).declarations
    links.create(name, source="east", target="west", maps=[NamespaceMap.parse(f"{name}.a-:{name}.x-")])
    known = links.describe(name).declaration
    west = known.target.cluster_id
    kept = known.semantics[west]
    assert (kept["topic_ids"], kept["markers"]) == (True, True)
    assert kept["features"].keys() == {"metadata.version", "transaction.version"}
    levels = kept["features"] | {"transaction.version": 99}
    newer = {**kept, "kafka": "9.0", "features": levels}

    link = open_fabric(both, declared=True).configuration.link(name)

    async def told() -> list[str]:
        async with Client(link.source) as source, Client(link.target) as target:
            documents = (await recollect(name, target)).documents
            plan = LinkPlan(link=name, source="east", target="west")
            view = LinkView(link=link, source=source, target=target, plan=plan, documents=documents)
            loop = SemanticsLoop()
            left = await loop.apply(view, await loop.look(view))
            return [each.problem.message for each in left if each.problem is not None]

    assert asyncio.run(told()) == []
    asyncio.run(AsyncDeclaredLinks(both).change(name, lambda _: {f"{SEMANTICS}{west}": newer}))
    (message,) = asyncio.run(told())
    assert message.startswith(f"west was downgraded since link {name} was declared: it was Kafka 9.0, and is ")
    assert "; its transaction.version was 99, and is " in message
    accepted = links.update(name, accept_semantics=True).declaration
    assert accepted.semantics[west] == known.semantics[west]
    assert asyncio.run(told()) == []
    links.delete(name)


def test_what_cannot_be_declared_is_refused(
    both: Configuration, name: str, east: LocalCluster, west: LocalCluster
) -> None:
    """Nothing is written before everything is found sound, and every refusal names what is in the way."""
    links, (each,) = Fabric(both).declarations, maps(f"{name}.")

    def create(link: str = name, source: str = "east", target: str = "west", **given: Any) -> None:
        links.create(link, source=source, target=target, **{"maps": [each], **given})

    for configuration in (both, cut(both, "east")):
        with pytest.raises(PlanRefused, match="new links are asynchronous"):
            Fabric(configuration).declarations.create(name, source="east", target="west", maps=[each], mode="sync")
    with pytest.raises(PlanRefused, match="source east and target east are the same cluster"):
        create(target="east")
    with pytest.raises(ConfigError, match="no cluster named nowhere"):
        create(target="nowhere")
    with pytest.raises(ConfigError, match=r"topics\.naming of a declared link"):
        create(settings={"topics.naming": "mm2"})
    with pytest.raises(ConfigError, match=r"limits\.bytes_per_s"):
        create(settings={"limits.bytes_per_s": "fast"})
    with pytest.raises(PlanRefused, match="overlap"):
        create(maps=[each, *maps(f"{name}.more-:elsewhere-")])
    with pytest.raises(ClusterError, match="east has to answer"):
        Fabric(cut(both, "east")).declarations.create(name, source="east", target="west", maps=[each])
    topics.create(east, f"{name}-1")
    topics.create(west, f"{name}.1", partitions=2)
    unready = [NamespaceMap.parse(f"{name}-:{name}.")]
    with pytest.raises(PlanRefused, match=rf"cannot be created: {name}/{name}\.1"):
        create(maps=unready)
    create(maps=unready, validate=False, dry_run=True)
    create(dry_run=True)
    with pytest.raises(ConfigError, match="is declared"):
        links.describe(name)

    create()
    create()
    for given in ({"mode": "sync"}, {"settings": {"mode": "sync"}}):
        with pytest.raises(PlanRefused, match="cannot be synchronous: it is DISCONNECTED, and has to be FOLLOWING"):
            links.update(name, **given)
    with pytest.raises(ConfigError, match="foo is not a known key"):
        links.update(name, settings={"foo": None})
    wanted = read_manifest(json.dumps(plain(links.describe(name))), "described")
    create(settings=wanted.settings, mode=wanted.mode, maps=wanted.maps, cluster_ids=wanted.cluster_ids)
    with pytest.raises(PlanRefused, match=r"west is cluster .* here, and elsewhere in the file"):
        create(cluster_ids={"west": "elsewhere"})
    with pytest.raises(PlanRefused, match="declared already, and otherwise"):
        create(settings={"on_data_gap": "continue"})
    with pytest.raises(PlanRefused, match=f"which follows {name}.* of east by link {name}"):
        create(link=f"{name}-2", maps=maps(f"{name}.sub-"))
    with pytest.raises(ConfigError, match="never attached"):
        Fabric(both).link(name).promoter(maps("nothing-")).detach()


def test_a_namespace_is_declared_and_taken_back(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """What is in it is told; one that follows stays reserved, and one that is attached stays declared."""
    fabric, prefix = Fabric(both), f"{name}-"
    namespaces = fabric.cluster("east").namespaces
    topics.create(east, f"{prefix}1")
    topics.create(east, name)
    links = fabric.declarations
    for meant_alone in (
        lambda: namespaces.create(Namespace.of(name)),
        lambda: links.create(name, source="east", target="west", maps=maps(name)),
    ):
        with pytest.raises(
            PlanRefused, match=f"{name} is the whole name of a topic of east, and others begin with it: {prefix}1"
        ):
            meant_alone()
    assert namespaces.create(Namespace.of(f"{name}*"), dry_run=True).members == (name, f"{prefix}1")
    links.create(name, source="east", target="west", maps=maps(f"{name}*"), dry_run=True)
    space, single = Namespace.of(prefix), Namespace.of(f"{prefix}1", is_exact=True)
    assert namespaces.create(space, dry_run=True).members == (f"{prefix}1",)
    namespaces.create(single, reserved=True)
    found = namespaces.create(space)
    assert (found.members, found.overlapping, found.is_reserved) == ((f"{prefix}1",), (single,), False)
    with pytest.raises(PlanRefused, match="declared already"):
        namespaces.create(space)
    namespaces.delete(single)
    with pytest.raises(ConfigError, match="no topic namespace"):
        namespaces.describe(single)

    fabric.declarations.create(name, source="east", target="west", maps=[NamespaceMap(source=space, target=space)])
    (leads,) = namespaces.describe(space).attached
    assert (leads.link, leads.leads) == (name, True)
    with pytest.raises(PlanRefused, match=f"attached to link {name}"):
        namespaces.delete(space)
    follower = fabric.cluster("west").namespaces
    assert follower.describe(space).is_reserved
    with pytest.raises(PlanRefused, match="follows"):
        follower.update(space, reserved=False)
    fabric.link(name).promoter().detach()
    assert not follower.update(space, reserved=False).is_reserved
    again = fabric.declarations.reattach(name)
    assert again.declaration.maps == (NamespaceMap(source=space, target=space),)
    assert follower.describe(space).is_reserved
