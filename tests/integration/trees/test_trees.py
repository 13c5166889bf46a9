"""Trees of real clusters: producers on each, and every message once on each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

import isthmus
from isthmus import config
from isthmus.groups.positions.carrying import Standing
from isthmus.local import LocalCluster
from isthmus.model.text.plain import plain
from testing.groups import consumers
from testing.groups.carrying import going_on
from testing.links.positions import committed, consume, has_followed, to_be_at
from testing.links.treerefusals import deleted_unusable, refused_beside
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs import command
from testing.runs.running import Running, running
from testing.runs.treeload import PARTITIONS, Clusters, Load, check, file_of, has_all, produce, read

pytestmark = pytest.mark.integration


def commit(cluster: LocalCluster, origin: str, name: str, numbers: Sequence[int]) -> None:
    """The same in a transaction, beside one that is aborted."""
    for outcome in ("abort", "commit"):
        writing = topics.producer(cluster, transactional_id=f"{name}-{origin}", transaction_timeout_ms=60_000)
        writing.init_transactions(TERM_S)
        writing.begin_transaction()
        for number in numbers:
            for partition in range(PARTITIONS):
                value = b"%d" % number if outcome == "commit" else b"aborted"
                given = Given(origin.encode(), value, [], topics.SEPTEMBER + number)
                topics.send(writing, name, [given], partition=partition)
        if outcome == "commit":
            writing.commit_transaction(TERM_S)
        else:
            writing.flush(TERM_S)
            writing.abort_transaction(TERM_S)


@pytest.mark.parametrize(
    "tree",
    [[["east", "west"], ["north", "south"]], [["east", ["west", "north"]], "south"]],
    ids=["balanced", "unbalanced"],
)
def test_every_message_comes_to_every_cluster_once(
    four: Clusters, topic: Callable[[str], str], spark: SparkSession, tree: Any, tmp_path: Path
) -> None:
    """Whatever the tree: with small batches, codecs and transactions, of what was there and of what comes. What
    distributors say they have copied, and what was written there, make up what each cluster has.
    """
    name = topic("distributed")
    used = {alias: each for alias, each in four.items() if alias in json.dumps(tree)}
    for number, (alias, cluster) in enumerate(used.items()):
        topics.create(cluster, name, partitions=PARTITIONS)
        produce(cluster, alias, name, range(60), ("none", "lz4", "zstd", "gzip")[number])
    configuration = config.parse(json.dumps(file_of(used, tree, name)))
    written = dict.fromkeys(used, 60)

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            await run.until(lambda: asyncio.to_thread(has_all, used, name, written))
            for alias, cluster in used.items():
                await asyncio.to_thread(commit, cluster, alias, name, range(60, 80))
                written[alias] += 20
            await run.until(lambda: asyncio.to_thread(has_all, used, name, written))
            # Nobody has anything left to do: no message goes round.
            await run.until(lambda: all(t.lag_records == 0 for link in run.links for t in link.topics))
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    check(used, name, written)
    file = tmp_path / "isthmus.yaml"
    file.write_text(json.dumps(file_of(used, tree, name)))
    shown = command.run("tree", "show", "--counts", "-o", "json", "-c", file)
    came = dict(written)
    for each in json.loads(shown.stdout)[0]["distributors"]:
        came[each["target"]] += each["copied_records"] // PARTITIONS
    assert came == dict.fromkeys(used, sum(written.values()))
    if tree[0][1] != "west":
        # Comparing one tree is enough.
        return
    # A drill compares what the distributor copies: north's messages came to east by level 2, and go on by level 1 only.
    whole = file_of(used, tree, name)
    whole["trees"][0]["groups"] = [name]
    consumers.commit(used["east"], {name: {(name, p): 0 for p in range(PARTITIONS)}})
    with isthmus.open(config.parse(json.dumps(whole)), spark=spark) as fabric:
        for level, origins in ((1, 2), (2, 1)):
            drilled = fabric.groups.drill(name, link=f"{name}.east.{level}")
            assert (drilled.skipped, drilled.read_again, drilled.problem) == (0, 0, None), drilled
            assert [each.compared for each in drilled.positions] == [origins * 80] * PARTITIONS
        assert fabric.groups.drill(name).link == f"{name}.east.1"
    # All that distributors have to copy is at their targets; what comes later is missed by those that copy it alone.
    with isthmus.open(configuration, spark=spark) as fabric:
        verdicts = fabric.verify()
        assert len(verdicts) == len(configuration.links)
        assert all(verdict.equal for verdict in verdicts.values())
        produce(used["east"], "east", name, range(80, 83), "none")
        missing = {link: sum(topic.missing for topic in found.topics) for link, found in fabric.verify().items()}
        # Of the tree as a whole it is on its way, to each of the others.
        found = fabric.trees.verify(name)
        written["east"] += 3
        assert (found.equal, found.count("waiting"), found.count("unjudged")) == (True, 3 * PARTITIONS * 3, 0)
        assert found.count("local") == sum(written.values()) * PARTITIONS
    copiers = {link.name for link in configuration.links if link.source.alias == "east"}
    assert missing == {link: 3 * PARTITIONS if link in copiers else 0 for link in verdicts}


def test_a_killed_process_loses_and_doubles_nothing(
    four: Clusters, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Distributors of a tree that is in no file: declared while the process runs that is killed later, while everybody
    produces, they go on where they were, on three clusters of one node. They follow when it gets another topic, and
    one more part, until it is deleted.
    """
    name, later = topic("killed"), topic("later")
    used = {alias: four[alias] for alias in ("east", "west", "north")}
    for cluster in used.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file, tree = tmp_path / "isthmus.yaml", tmp_path / "tree.yaml"
    whole = file_of(four, list(used), name)
    tree.write_text(json.dumps(whole.pop("trees")[0]))
    file.write_text(json.dumps({**whole, "spark": {"master": "local[2]"}}))
    load = Load(used, name, file)
    first = load.run()
    try:
        planned = load.call("tree", "create", "-f", str(tree), "--dry-run")
        assert (planned["behind"], load.call("tree", "list")) == ([], [])
        created = load.call("tree", "create", "-f", str(tree))
        assert load.call("tree", "create", "-f", str(tree)) == created
        refused_beside(whole, used, name)
        deleted_unusable(whole, used, f"{name}-2")
        load.wait_until_everywhere(400)
        assert len(load.call("tree", "plan", name)["links"]) == 6, "each copies to both others"
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(TERM_S)
    told = tmp_path / "told"
    second = load.run(told)
    try:
        load.end()
        load.wait_until_everywhere(sum(load.written.values()) * PARTITIONS)
        assert load.call("tree", "list") == [load.call("tree", "describe", name)] == [created]
        changed = ("tree", "update", name, "--set", f"topics={json.dumps([name, later])}")
        assert load.call(*changed, "--dry-run") != created == load.call("tree", "describe", name)
        load.call(*changed)
        topics.create(four["west"], later, partitions=PARTITIONS)
        produce(four["west"], "west", later, range(10), "none")
        load.wait_for(lambda: has_all(used, later, {"west": 10}))
        # One more part of the node: all others go on under their names.
        load.call("tree", "add", name, "south", "--among", "west")
        load.wait_for(lambda: has_all(four, later, {"west": 10}) and has_all(four, name, load.written))
        produce(four["south"], "south", later, range(10), "none")
        load.wait_for(lambda: has_all(four, later, {"west": 10, "south": 10}))
        # With the file of somebody who has a tree of that name it is that one that counts.
        other = tmp_path / "other.yaml"
        other.write_text(json.dumps(file_of(used, ["east", "west"], name)))
        found = load.done("tree", "targets", name, file=other)
        assert f"tree {name} of the file is run in place of the declared one" in " ".join(found.stderr.split())
        load.call("tree", "delete", name, "--yes")
        assert load.call("tree", "list") == []
        load.wait_for(
            lambda: " ".join(told.read_text().split()).count("is gone from the configuration, and ends") == 12
        )
    finally:
        load.end()
        second.send_signal(signal.SIGINT)
        second.wait(TERM_S)
    check(four, name, load.written)
    check(four, later, {"west": 10, "south": 10})


def test_distributors_go_over_to_other_leaves_under_load(
    four: Clusters, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """While everybody produces, there and back, two at a time, and with a kill in the middle: every message is once on
    every cluster, and each producer's order is kept.
    """
    name = topic("switched")
    for cluster in four.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file = tmp_path / "isthmus.yaml"
    tree = [["east", "west"], ["north", "south"]]
    file.write_text(json.dumps({**file_of(four, tree, name), "spark": {"master": "local[2]"}}))
    load = Load(four, name, file)
    first = load.run()
    try:
        load.wait_until_everywhere(400)
        load.switch("east", "south", "--dry-run")
        assert load.targets() == {"east": "north", "west": "south", "north": "east", "south": "west"}
        load.switch("east", "south")
        time.sleep(1.5)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(TERM_S)
    second = load.run()
    try:
        load.wait_for(lambda: load.targets()["east"] == "south")
        (link,) = (each for each in load.call("status") if each["link"] == f"{name}.east.2")
        assert link["target"] == "south"
        load.wait_until_everywhere(sum(load.written.values()))
        # Back again, and another one the other way, at the same time.
        load.switch("east", "north")
        load.switch("west", "north")
        load.wait_for(lambda: (load.targets()["east"], load.targets()["west"]) == ("north", "north"))
        load.wait_until_everywhere(sum(load.written.values()))
        load.end()
        load.wait_until_everywhere(sum(load.written.values()) * PARTITIONS)
    finally:
        load.end()
        second.send_signal(signal.SIGINT)
        second.wait(TERM_S)
    check(four, name, load.written)


def test_a_cluster_comes_into_a_running_tree_and_leaves_it(
    four: Clusters, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """It gets all that there is, and all others get what is produced on it, while everybody produces; when it leaves
    nothing of it is missing anywhere. At another place it gets everything anew, and others get what it produces.
    """
    name = topic("grown")
    for cluster in four.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file = tmp_path / "isthmus.yaml"
    tree = {"level": 4, "clusters": [["east", "west"], "north"]}
    file.write_text(json.dumps({**file_of(four, tree, name), "spark": {"master": "local[2]"}}))
    load = Load(four, name, file, level=4)
    running = load.run()
    try:
        load.wait_until_everywhere(200)
        assert "no level is free" in load.done("tree", "add", name, "south", "--beside", "east").stderr
        planned = load.call("tree", "add", name, "south", "--beside", "north", "--dry-run")
        assert [each["name"].removeprefix(name) for each in planned["begun"]] == [".north.3", ".south.3", ".south.4"]
        load.call("tree", "add", name, "south", "--beside", "north")
        load.wait_until_everywhere(sum(load.written.values()))
        # Whoever copies to it goes over to another leaf first, and it waits for what was produced on it.
        load.switch("east", "south")
        load.wait_for(lambda: load.targets()["east"] == "south")
        refused = load.done("tree", "remove", name, "south", "--yes")
        assert (refused.returncode, f"{name}.east.4 to north" in refused.stderr) == (5, True)
        load.end("south")
        load.wait_for(lambda: load.done("tree", "remove", name, "south", "--yes").returncode == 0)
        load.wait_for(lambda: len(load.call("status")) == 5)
        # Its own topic is still there: all of it would come everywhere once more.
        move = ("tree", "move", name, "south", "--beside", "north", "--yes")
        refused = load.done(*move)
        assert (refused.returncode, f"has its topics still: {name}" in refused.stderr) == (5, True)
        before = {alias: sum(map(len, read(four[alias], name).values())) for alias in ("east", "west", "north")}
        admin = AdminClient({"bootstrap.servers": four["south"].bootstrap_servers})
        admin.delete_topics([name])[name].result(TERM_S)
        load.wait_for(lambda: load.done(*move).returncode == 0)
        load.wait_until_everywhere(max(before.values()))
        load.end()
        load.wait_until_everywhere(sum(load.written.values()) * PARTITIONS)
        produce(four["south"], "south", name, range(load.written["south"], load.written["south"] + 20), "lz4")
        load.written["south"] += 20
        load.wait_until_everywhere(sum(load.written.values()) * PARTITIONS)
    finally:
        load.end()
        running.send_signal(signal.SIGINT)
        running.wait(TERM_S)
    check(four, name, load.written)


def test_a_tree_of_another_shape_is_refused(four: Clusters, topic: Callable[[str], str], spark: SparkSession) -> None:
    """A cluster under two names would be copied twice, and another target or level would bring everything once more; a
    cluster that is added above the others would not, nor one that becomes one more part of a node.
    """
    name = topic("shaped")
    used = {alias: four[alias] for alias in ("east", "west", "north")}
    for cluster in used.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    produce(four["east"], "east", name, range(10), "none")

    async def scenario(tree: Any, ends: Callable[[Running], bool]) -> None:
        configuration = config.parse(json.dumps(file_of(used, tree, name)))
        async with running(configuration, spark) as run:
            await run.until(lambda: ends(run))
            await run.end()

    def has_copied(run: Running) -> bool:
        return len(run.links) == 2 and sum(link.records for link in run.links) == 10 * PARTITIONS

    def is_refused(run: Running) -> bool:
        problems = {link.link: link.problem for link in run.links}
        problem = problems.get(f"{name}.east.2")
        return problem is not None and f"west got messages of east by {name}.east.1 until now" in problem.message

    def has_all_three(run: Running) -> bool:
        return has_all(used, name, written)

    written = {"east": 10}
    twice = file_of({**used, "twin": four["east"]}, [["east", "west"], ["north", "twin"]], name)
    with isthmus.open(config.parse(json.dumps(twice)), spark=spark) as fabric:
        errors = fabric.run(until="caught-up").errors
    assert len(errors) == 8
    assert all("are the same cluster" in error.message for error in errors.values())
    asyncio.run(scenario(["east", "west"], has_copied))
    asyncio.run(scenario(["east", ["west", "north"]], is_refused))
    with isthmus.open(
        config.parse(json.dumps(file_of(used, ["east", ["west", "north"]], name))), spark=spark
    ) as fabric:
        foreseen = {link.link: link.problem for link in fabric.plan().links}
        told = f"west got messages of east by {name}.east.1 until now"
        assert told in str(foreseen[f"{name}.east.2"]), "what a run refuses is planned as refused"
        assert any(told in each.message for each in fabric.doctor())
    asyncio.run(scenario([["east", "west"], "north"], has_all_three))
    check(used, name, {"east": 10, "west": 0, "north": 0})
    # As one more part of the node that was there before all others keep their names and go on where they were.
    used["south"] = four["south"]
    topics.create(four["south"], name, partitions=PARTITIONS)
    for alias in ("south", "north"):
        produce(four[alias], alias, name, range(10), "none")
        written[alias] = 10
    parts = {"clusters": [["east", "west"], "north", "south"], "parts": [1, 2, 3], "pair": [1, 2]}
    asyncio.run(scenario(parts, has_all_three))
    check(used, name, {"west": 0, **written})


def test_copy_flags_stand_in_a_header(four: Clusters, topic: Callable[[str], str], spark: SparkSession) -> None:
    """As Axual's distributors write them and read them: by them alone it is known what was distributed, and how far."""
    name = topic("flagged")
    for cluster in four.values():
        topics.create(cluster, name)
    mine = ("mine", b"1")
    given = {
        b"plain": [mine],
        b"level 1": [mine, ("f", b"\x01")],
        b"level 2": [("f", b"\x02"), mine],
        b"too wide": [mine, ("f", b"\x00\x01")],
        b"twice": [("f", b"\x01"), mine, ("f", b"\x01")],
    }
    copied = (b"plain", b"too wide", b"twice")
    writing = topics.producer(four["east"], compression_type="zstd")
    for key, headers in given.items():
        topics.send(writing, name, [Given(key, b"v", list(headers), topics.SEPTEMBER)])
    topics.flush(writing)
    file = file_of(four, [["east", "west"], ["north", "south"]], name)
    file["trees"][0] |= {"flags": "header", "header": {"name": "f"}, "groups": [name]}

    def seen(alias: str) -> dict[bytes, list[tuple[str, bytes | None]]]:
        (records,) = oracle.records(four[alias].bootstrap_servers, name)
        return {record.key or b"": list(record.headers) for record in records}

    def has_come(run: Running) -> bool:
        time.sleep(0.2)
        return len(seen("south")) == 3 and len(seen("west")) == 4

    async def scenario() -> None:
        async with running(config.parse(json.dumps(file)), spark) as run:
            await run.until(lambda: asyncio.to_thread(has_come, run))
            await run.until(lambda: all(t.lag_records == 0 for link in run.links for t in link.topics))
            # Those of east replace the headers that say nothing, and are counted by what others find in the ledger.
            replaced = {link.link: sum(t.flags_replaced for t in link.topics) for link in run.links}
            assert replaced == {link.link: 2 if link.source == "east" else 0 for link in run.links}
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    with isthmus.open(config.parse(json.dumps(file)), spark=spark) as fabric:
        shown = {link.link: plain(link)["topics"][0]["partitions"][0] for link in fabric.status()}
        assert all(verdict.equal for verdict in fabric.verify().values())
        consumers.commit(four["east"], {name: {(name, 0): 0}})
        for level, copies in ((1, 4), (2, 3)):
            drilled = fabric.groups.drill(name, link=f"{name}.east.{level}")
            assert [(each.compared, each.skipped) for each in drilled.positions] == [(copies, 0)]
        tree = fabric.trees.verify(name)
        # Of what has flags already nobody has what it would be a copy of.
        assert (tree.equal, tree.count("local"), tree.count("unjudged")) == (True, len(copied), 3)
        topics.send(writing, name, [Given(b"late", b"v", [("f", b"\x02")], topics.SEPTEMBER)])
        topics.flush(writing)
        found = {link: sum(each.missing for each in verdict.topics) for link, verdict in fabric.verify().items()}
        assert {link for link, missing in found.items() if missing} == {f"{name}.east.1"}
    assert {link: each["copy_flags_replaced"] for link, each in shown.items() if each["copy_flags_replaced"]} == {
        f"{name}.east.1": 2,
        f"{name}.east.2": 2,
    }
    assert seen("east") == given | {b"late": [("f", b"\x02")]}
    assert seen("west") == {key: [mine, ("f", b"\x01")] for key in copied} | {b"level 2": [mine, ("f", b"\x03")]}
    assert seen("north") == {key: [mine, ("f", b"\x02")] for key in copied}
    assert seen("south") == {key: [mine, ("f", b"\x03")] for key in copied}


def drilled(fabric: isthmus.Fabric, here: str, there: str, group: str) -> int:
    """How many messages a drill of the distributor between two clusters compares, if there is one: none is missed."""
    for link in fabric.configuration.links:
        if (link.source.alias, link.target.alias) == (here, there):
            found = fabric.groups.drill(group, link=link.name)
            assert (found.skipped, found.problem) == (0, None), found
            return sum(each.compared for each in found.positions)
    return 0


@pytest.mark.parametrize("offset_flags", ["producer-id", "metadata"])
def test_consumers_go_round_a_tree(
    four: Clusters, topic: Callable[[str], str], spark: SparkSession, offset_flags: str
) -> None:
    """A real consumer goes from cluster to cluster, round and back, while everybody produces: it misses nothing, and
    reads again what the margin says and nothing older. Before it goes over a drill says that it will miss nothing.
    """
    name, wave, margin_ms = topic("round"), 30, 30  # it takes back 150 of a partition at most
    used = {alias: four[alias] for alias in ("east", "west", "north")}
    for cluster in used.values():
        topics.create(cluster, name, partitions=PARTITIONS)
    file = file_of(used, [["east", "west"], "north"], name)
    file["trees"][0] |= {"groups": [name], "margin_s": margin_ms / 1000, "offset_flags": offset_flags}
    configuration = config.parse(json.dumps(file))
    fabric = isthmus.open(configuration, spark=spark)
    written = dict.fromkeys(used, 0)
    seen: Counter[tuple[int, str, int]] = Counter()

    def write() -> None:
        for alias, cluster in used.items():
            produce(cluster, alias, name, range(written[alias], written[alias] + wave), "lz4")
            written[alias] += wave

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            for _ in range(3):
                # A wave is everywhere before the next one comes: messages take less than the margin.
                write()
                await run.until(lambda: asyncio.to_thread(has_all, used, name, written))
            consumers.commit(used["east"], {name: {(name, p): 0 for p in range(PARTITIONS)}})
            ring = ["east", "west", "north", "east", "north", "west", "east"]
            carried: list[int] = []
            compared: list[int] = []
            for here, there in pairwise(ring):
                write()
                await run.until(lambda: asyncio.to_thread(has_all, used, name, written))
                await asyncio.to_thread(consume, used[here], name, 300 if carried else 450, seen)
                wanted = await asyncio.to_thread(to_be_at, used[here], used[there], name, name, margin_ms)
                await run.until(partial(asyncio.to_thread, has_followed, used[there], name, name, wanted))
                carried.append(max(wanted.values()))
                compared.append(await asyncio.to_thread(drilled, fabric, here, there, name))
            assert all(carried), "none begins at the beginning"
            assert any(compared), "somewhere messages were still to be read"
            left = sum(map(len, read(used["east"], name).values())) - sum(
                offset for offset, _ in committed(used["east"], name, name).values()
            )
            await asyncio.to_thread(consume, used["east"], name, left, seen)
            for alias in ("west", "north"):
                wanted = await asyncio.to_thread(to_be_at, used["east"], used[alias], name, name, margin_ms)
                await run.until(partial(asyncio.to_thread, has_followed, used[alias], name, name, wanted))
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    check(used, name, written)
    everything = {(p, alias, n) for p in range(PARTITIONS) for alias in used for n in range(written[alias])}
    assert seen.keys() == everything
    assert any(count > 1 for count in seen.values()), "each switch reads the margin again"
    plans = {plan.link: plan for plan in fabric.groups.plan()}
    assert sorted(plans) == [f"{name}.{tail}" for tail in ("east.1", "east.2", "north.2", "west.1", "west.2")]
    standings = {link: plan.groups[0].standing for link, plan in plans.items()}
    assert not any(plan.has_changes for plan in plans.values()), standings
    # What others say is what they were told from east, or what a consumer did there before: by less than the margin
    # that may be further on than what east says.
    assert {*standings.values()} <= {Standing.BY_OTHERS, Standing.AHEAD_AT_TARGET, Standing.IN_STEP}


def test_a_group_behind_a_deleted_beginning_goes_through_a_tree(
    four: Clusters, topic: Callable[[str], str], spark: SparkSession
) -> None:
    """Of 35 messages 24 are gone and the group has read all: on new clusters it goes on a minute before, what its
    consumer wrote beside the position stays, and what another program puts into the map is committed as well.
    """
    name, stranger = topic("behind"), topic("stranger")
    used = {alias: four[alias] for alias in ("east", "west", "north")}
    messages = [Given(None, b"%d" % n, [], topics.SEPTEMBER + n * 60_000) for n in range(1, 41)]
    topics.create(used["east"], name)
    topics.produce(used["east"], name, messages[:35])
    topics.delete_records(used["east"], name, 24)
    admin = AdminClient({"bootstrap.servers": used["east"].bootstrap_servers})
    at = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 35, metadata="mine")])
    consumers.commit(used["east"], {name: {(name, 0): 35}})
    for future in admin.alter_consumer_group_offsets([at]).values():
        future.result(TERM_S)
    file = file_of(used, [["east", "west"], "north"], name)
    file["trees"][0] |= {"groups": [name, stranger], "offset_flags": "metadata"}

    def stands(alias: str, group: str, value: bytes) -> tuple[int, str] | None:
        """What stands beside a position before this message."""
        (log,) = oracle.records(used[alias].bootstrap_servers, name)
        found = committed(used[alias], group, name).get(0)
        (offset,) = [record.offset for record in log if record.value == value] or [-1]
        time.sleep(0.2)
        return found if found is not None and found[0] == offset else None

    async def scenario() -> None:
        async with running(config.parse(json.dumps(file)), spark) as run:
            for alias in ("west", "north"):
                # The group stands at the end: by the last message.
                await run.until(partial(asyncio.to_thread, lambda alias: stands(alias, name, b"34") is not None, alias))
            topics.produce(used["east"], name, messages[35:])
            for alias, beside in (("west", "copy-flags=01;mine"), ("north", "copy-flags=02;mine")):
                await run.until(partial(asyncio.to_thread, lambda alias: stands(alias, name, b"35") is not None, alias))
                assert (stands(alias, name, b"35") or (0, ""))[1] == beside
            if "__isthmus.positions" not in topics.names(used["east"]):
                # Nobody has sent anything to it yet.
                topics.create(used["east"], "__isthmus.positions", cleanup_policy="compact")
            writing = Producer({"bootstrap.servers": used["east"].bootstrap_servers})
            entry = {"timestamp_ms": topics.SEPTEMBER + 30 * 60_000, "flags": 2}
            writing.produce("__isthmus.positions", json.dumps(entry), json.dumps([stranger, name, 0]), partition=0)
            assert writing.flush(TERM_S) == 0
            for alias in ("east", "west"):
                await run.until(
                    partial(asyncio.to_thread, lambda alias: stands(alias, stranger, b"30") is not None, alias)
                )
            assert (await run.end_well()).exit_code == 0

    asyncio.run(scenario())
    # Nobody reads at west: the drill of its distributor says so, and that of east's is the one that is meant.
    with isthmus.open(config.parse(json.dumps(file)), spark=spark) as fabric:
        assert "its newest position comes another way" in str(fabric.groups.drill(name, link=f"{name}.west.1").problem)
        meant = fabric.groups.drill(name)
    assert (meant.link, meant.skipped, meant.read_again, meant.problem) == (f"{name}.east.1", 0, 1, None)
    assert going_on(used["north"], name, name, 6) == [b"%d" % n for n in range(35, 41)]
