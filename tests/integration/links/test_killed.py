"""Verbs of a link whose process is killed at each of their steps, and which are given again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.links.recovery import quarantine_of
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import LEDGER_TOPIC
from testing.groups import consumers
from testing.groups.carrying import records
from testing.links.promoting import created, ends_at, written
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs import command
from testing.runs.declaring import both as both
from testing.runs.killing import LedgerWatch, configured, written_down
from testing.runs.recovering import Interrupted, log_of
from testing.runs.running import running
from testing.verbs import AsyncDeclaredLinks, Promoter

pytestmark = pytest.mark.integration

RECORDS: Final = 20
BACK: Final = "-back"
KINDS: Final = ("beginning", "declaration", "namespace", "pause", "provenance", "recovery", "recovering", "topic")
"""What of the ledgers verbs write, or take away."""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A command, how many links it takes to kill it at each step and once not, how often at least it is killed so, and
    who leads them then, if any.
    """

    words: tuple[str, ...]
    links: int
    steps_min: int = 2
    leader: str = ""
    has_groups: bool = True


VERBS: Final = {
    "failover": Verb(words=("failover",), links=12),
    "promote": Verb(words=("promote", "--quiet", "100ms"), links=10),
    "reverse": Verb(words=("reverse", "--quiet", "100ms", "--as"), links=16, leader="west"),
    "detach": Verb(words=("detach",), links=8),
    "reattach": Verb(words=("reattach",), links=8, leader="east"),
    "recover": Verb(words=("recover", "--quiet", "100ms"), links=10, leader="east", has_groups=False),
    "delete": Verb(words=("delete",), links=8),
    "pause": Verb(words=("pause",), links=6, steps_min=1),
    "resume": Verb(words=("resume",), links=6, steps_min=1, leader="east"),
}


@pytest.fixture
def names(topic: Callable[[str], str], both: Configuration) -> Iterator[Callable[[int], list[str]]]:
    """Names of links that are deleted in the end, so that no other test runs them."""
    made: list[str] = []

    def more(count: int) -> list[str]:
        made.extend(topic("killed") for _ in range(count))
        return made[-count:]

    yield more
    links = Fabric(both).declarations
    for link in links.all():
        if link.declaration.name.removesuffix(BACK) in made:
            links.delete(link.declaration.name)


def back(name: str) -> str:
    """The way back of a link that is reversed."""
    return f"{name}{BACK}"


async def followed(
    both: Configuration, east: LocalCluster, west: LocalCluster, names: list[str], spark: SparkSession, verb: str
) -> None:
    """Links of a topic of twenty records and a group each, as they are before the verb."""
    declaring = AsyncDeclaredLinks(both.written)
    for name in names:
        topics.create(east, f"{name}.a-1")
        topics.produce(east, f"{name}.a-1", records(RECORDS))
        if VERBS[verb].has_groups:
            consumers.commit(east, {f"{name}.app": {(f"{name}.a-1", 0): 7}})
    await asyncio.gather(
        *(
            declaring.create(
                name,
                source="east",
                target="west",
                maps=[NamespaceMap.parse(f"{name}.a-:{name}.x-"), NamespaceMap.parse(f"{name}.", "group")],
                validate=False,
            )
            for name in names
        )
    )
    await caught_up(both, names, spark)
    if verb == "reattach":
        await asyncio.gather(*(Promoter(configuration=both, name=name).detach() for name in names))
    if verb == "resume":
        links = await asyncio.to_thread(open_fabric, both, declared=True)
        await asyncio.gather(*(asyncio.to_thread(links.link(name).pause) for name in names))
    if verb == "recover":
        for name in names:
            topics.produce(west, f"{name}.x-1", records(3, begin=100))


async def caught_up(both: Configuration, names: list[str], spark: SparkSession) -> None:
    """Those of these links that there are have copied all."""
    opened = await asyncio.to_thread(open_fabric, both, declared=True)
    links = tuple(link for link in opened.configuration.links if link.name in names)
    async with running(replace(opened.configuration, links=links), spark, until_caught_up=True) as run:
        assert (await run.task).is_caught_up


def arguments(file: str, verb: str, name: str) -> list[str]:
    """The command for one link."""
    words, is_asked = VERBS[verb].words, verb not in ("reattach", "pause", "resume")
    given = (words[0], name, *words[1:], *((back(name),) if words[-1] == "--as" else ()))
    noun = () if verb in ("pause", "resume") else ("link",)
    return [*noun, *given, *(("--yes",) if is_asked else ()), "-c", file]


def outcome(east: LocalCluster, west: LocalCluster, name: str, verb: str) -> dict[str, object]:
    """All that has become of a link, whichever one it is: in both ledgers, in its topics, and of its group."""
    mirror, group = f"{name}.x-1", f"{name}.app"
    if VERBS[verb].has_groups:
        consumers.await_position(west, group, (mirror, 0), 7)
    return {
        **written_down(east, name, KINDS),
        **written_down(west, name, KINDS),
        "records": [(each.offset, each.value) for each in log_of(west, mirror)],
        "set aside": [each.value for each in log_of(west, quarantine_of(mirror))] if verb == "recover" else [],
    }


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_killed_at_every_step(
    both: Configuration,
    east: LocalCluster,
    west: LocalCluster,
    names: Callable[[int], list[str]],
    spark: SparkSession,
    tmp_path: Path,
    verb: str,
) -> None:
    """As soon as one more record of it is in a ledger its process is killed. Given again it comes to its end, and
    everything is as where nobody killed it; what is to follow then follows.
    """
    leader, chosen = VERBS[verb].leader, names(VERBS[verb].links)
    asyncio.run(followed(both, east, west, chosen, spark, verb))
    file, step, through, kills = configured(tmp_path, east, west), 1, list[str](), 0
    with LedgerWatch((east, west)) as watch:
        for name in chosen:
            was_killed, seen = watch.killed(arguments(file, verb, name), step)
            through.append(name)
            kills += was_killed
            if not was_killed:
                # It may have come to its end just before it would have been killed.
                if kills >= VERBS[verb].steps_min:
                    break
                continue
            step = seen + 1
            again = command.run(*arguments(file, verb, name))
            is_gone = verb == "delete" and again.returncode == 2 and f"no link {name}" in again.stderr
            assert again.returncode == 0 or is_gone, (step, again.stderr)
    assert not was_killed, f"it takes more than {len(chosen)} links to kill it at each step"
    *killed, undisturbed = through
    assert kills >= VERBS[verb].steps_min, f"it was killed {kills} times only"
    wanted = outcome(east, west, undisturbed, verb)
    for name in killed:
        assert outcome(east, west, name, verb) == wanted

    topic, cluster = ("x-1", west) if leader != "east" else ("a-1", east)
    for name in through:
        assert written(cluster, f"{name}.{topic}") == RECORDS
    if leader:
        running_then = [back(name) if verb == "reverse" else name for name in through]
        asyncio.run(caught_up(both, running_then, spark))
        for name in through:
            assert log_of(west, f"{name}.x-1") == log_of(east, f"{name}.a-1")


@contextmanager
def left_open(cluster: LocalCluster, what: str, key: bytes, value: bytes | None) -> Iterator[None]:
    """What a command that was killed had said to the ledger of `what` declares; it is aborted afterwards, as brokers do
    when its time is over.
    """
    killed = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"isthmus.{what}.declaration"}
    )
    killed.init_transactions(TERM_S)
    killed.begin_transaction()
    killed.produce(LEDGER_TOPIC, value, key, partition=0)
    assert killed.flush(TERM_S) == 0
    yield
    with suppress(KafkaException):
        killed.abort_transaction(TERM_S)


def said_last(cluster: LocalCluster, prefix: str) -> tuple[bytes, Any]:
    """The key that begins so in a ledger, and the document under it."""
    # The control record of what was committed last comes after the answer.
    oracle.await_decided(cluster.admin_bootstrap_servers, LEDGER_TOPIC)
    last = {record.key: record.value for record in log_of(cluster, LEDGER_TOPIC)}
    (key,) = (each for each, value in last.items() if each and value and each.startswith(prefix.encode()))
    return key, json.loads(last[key] or b"")


def said_anew(registers: list[dict[str, Any]], name: str, value: str) -> None:
    """Have one of the registers of a document say something else, as who has seen it does."""
    (register,) = (each for each in registers if each["name"] == name)
    seen = [[register["where"], register["version"]]]
    register.update(value=value, version=register["version"] + 1, seen=seen)


def test_a_release_that_was_not_committed_is_said_again(
    both: Configuration, east: LocalCluster, west: LocalCluster, names: Callable[[int], list[str]]
) -> None:
    """A failover was killed with what it said of its namespaces in transactions that are still open: given again it
    does not take them for released, as brokers abort them.
    """
    (name,) = names(1)
    created(both, east, name)
    topics.create(west, f"{name}.x-1")
    promoter = Promoter(configuration=both, name=name, on_step=ends_at("releasing the namespaces"))
    with pytest.raises(Interrupted):
        asyncio.run(promoter.failover())
    spaces = Namespace.of(f"{name}.x-"), Namespace.of(f"{name}.", kind="group")
    with ExitStack() as open_still:
        for space in spaces:
            key, said = said_last(west, f"namespace/{space.kind}/{space}")
            said_anew(said["registers"], "reserved", "false")
            what = f"namespace.{space.kind}.{space}"
            open_still.enter_context(left_open(west, what, key, json.dumps(said).encode()))
        assert asyncio.run(replace(promoter, on_step=lambda _: None).failover()).is_done
    for space in spaces:
        assert not Fabric(both).cluster("west").namespaces.describe(space).is_reserved


def test_a_deletion_that_was_not_committed_is_said_again(
    both: Configuration, east: LocalCluster, west: LocalCluster, names: Callable[[int], list[str]]
) -> None:
    """Deletions of a namespace and of a link were killed in transactions that are still open: given again they find
    what they are to delete, and it is gone for good.
    """
    (name,) = names(1)
    space = Namespace.of(f"{name}.own-")
    namespaces = Fabric(both).cluster("west").namespaces
    namespaces.create(space)
    key, _ = said_last(west, f"namespace/topic/{space}")
    with left_open(west, f"namespace.topic.{space}", key, None):
        namespaces.delete(space)
    assert space not in {each.namespace for each in namespaces.all()}

    created(both, east, name)
    with ExitStack() as open_still:
        for cluster in (east, west):
            key, said = said_last(cluster, f"declaration/{name}/")
            said_anew(said["registers"], "deleted", "true")
            open_still.enter_context(left_open(cluster, name, key, json.dumps(said).encode()))
        Fabric(both).declarations.delete(name)
    assert name not in {each.declaration.name for each in Fabric(both).declarations.all()}
