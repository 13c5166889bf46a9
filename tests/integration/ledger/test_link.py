"""The ledger of a link on real brokers: fencing, following, loss."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kafka.protocol.admin import DeleteTopicsRequest

from isthmus import __version__
from isthmus.errors import BrokerRefused, ClusterError, Fenced, PlanRefused, Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.log.leader import LogPlace
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.documents.declared import FiltersDocument
from isthmus.ledger.documents.kinds import (
    ControllerDocument,
    Document,
    LinkDocument,
    LoopDocument,
    PauseDocument,
    TaskDocument,
    TopicDocument,
)
from isthmus.ledger.fencing import FencedWriter, write_by_one
from isthmus.ledger.link import LinkLedger, newest, read_documents
from isthmus.ledger.log import LedgerTail, LedgerWriter, News, Poll
from isthmus.ledger.pulse import BEAT_S
from isthmus.ledger.records import Deletion, Entry
from isthmus.ledger.topic import LEDGER_TOPIC, PARTITION, ensure_topic, locate
from isthmus.ledger.view import LedgerView
from isthmus.local import LocalCluster
from isthmus.memory.links import read_ledger
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.whereabouts import Whereabouts
from isthmus.model.selection import TopicSettings
from isthmus.spark.leases.allowance import SourceWord, follow, prove
from testing.patience import TERM_S
from testing.records.committed import committed, cut_off, killed, until_committed
from testing.records.topics import SEPTEMBER, Given, configure, produce
from testing.verbs import pause

pytestmark = pytest.mark.integration


def link_document(link: str) -> LinkDocument:
    """What a link is made of, made up."""
    return LinkDocument(
        link=link, source_cluster_id="S", target_cluster_id="T", producer_id=4711, marker_producer_id=4712
    )


async def eventually(condition: Callable[[], bool], *, term_s: float = TERM_S) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + term_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


async def until_read(tail: LedgerTail) -> News:
    """Read on; right after another broker became the leader it may not know its own epoch yet."""
    while True:
        try:
            return await tail.read_on()
        except ClusterError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(0.05)


def run(work: Callable[[Client], Awaitable[None]], cluster: LocalCluster) -> None:
    """Run `work` with a client of the cluster."""

    async def main() -> None:
        async with Client(cluster.cluster()) as client:
            await work(client)

    asyncio.run(main())


def test_a_controller_is_later_than_all_before_it(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Also where the brokers gave a lower producer id than to one of which the ledger tells, by whatever document."""
    link = topic("link")

    async def work(client: Client) -> None:
        first = LinkLedger(client, link)
        await first.open()
        latest = first.generation
        for number, document in enumerate(
            (
                ControllerDocument(link=link, generation=latest + (1 << 40), beat=1, started_ms=1),
                TaskDocument(
                    link=link, slot=0, controller=latest + (2 << 40), generation=1, ended_through=1, is_clean=True
                ),
            ),
            1,
        ):
            first.close()
            writer = LedgerWriter(client)
            await writer.append([document])
            writer.close()
            first = LinkLedger(client, link)
            await first.open()
            assert first.generation == latest + (number << 40) + 1
            found = (await read_documents(client))[f"controller/{link}"]
            assert isinstance(found, ControllerDocument)
            assert found.generation == first.generation
        first.close()

    run(work, west)


def test_documents_are_there_for_the_next_controller(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """What one controller wrote the next one reads, other links' documents not among it; deleted ones are gone."""
    link, other = topic("link"), topic("link")
    orders = TopicDocument(
        link=link,
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.uuid4(),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.uuid4(),
        state="mirrored",
    )

    async def work(client: Client) -> None:
        for name in (link, other):
            first = LinkLedger(client, name)
            await first.open()
            await first.write(link_document(name))
            if name == link:
                await first.write(orders, PauseDocument(link=link, since_ms=1))
                await first.write(Deletion(PauseDocument(link=link, since_ms=1).key))
            first.close()
        second = LinkLedger(client, link)
        await second.open()
        second.close()

        assert {link_document(link), orders} <= set(second.documents.values())
        assert set(second.documents) == {f"link/{link}", f"topic/{link}/orders", f"controller/{link}"}
        everything = await read_documents(client)
        assert everything[f"link/{other}"] == link_document(other)

    run(work, west)


def test_a_second_controller_fences_the_first(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """The first controller ends with Fenced within its next beat, which names the second, and can write no more."""
    link = topic("link")
    there = Whereabouts(host="db1", host_id="boot pids db1", pid=4711, process_start=5)
    name = "the controller on db1, pid 4711, started 1970-01-01T00:00:00Z"

    async def work(client: Client) -> None:
        first, second = LinkLedger(client, link), LinkLedger(client, link, whereabouts=there, started_ms=0)
        await first.open()
        running = asyncio.create_task(first.run())
        await asyncio.sleep(0.3)
        await second.open()
        with pytest.raises(Fenced, match=name):
            await asyncio.wait_for(running, TERM_S)
        assert second.generation > first.generation
        with pytest.raises(Fenced, match=name):
            await first.write(link_document(link))
        await second.write(link_document(link))
        found = (await read_documents(client))[f"controller/{link}"]
        assert isinstance(found, ControllerDocument)
        assert (found.whereabouts, found.version) == (there, __version__)
        first.close()
        second.close()

    run(work, west)


def test_who_learns_it_from_the_brokers_names_its_successor_too(
    west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A controller that writes before it has read finds the name of the other one, which follows the fencing."""
    link = topic("link")

    async def work(client: Client) -> None:
        first = LinkLedger(client, link)
        await first.open()
        second = LinkLedger(client, link, whereabouts=Whereabouts(host="db1", pid=4711))
        await second._writer.take_over()
        writing = asyncio.create_task(first.write(link_document(link)))
        await second.write(second._make_beat())
        with pytest.raises(Fenced, match=r"the controller on db1, pid 4711, started .* has taken link"):
            await writing
        first.close()
        second.close()

    run(work, west)


def test_a_controller_alone_is_not_fenced_by_its_own_failures(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """A write whose answer was lost is repeated under the next epoch; the generation stays."""
    link = topic("link")

    async def work(client: Client) -> None:
        ledger = LinkLedger(client, link)
        await ledger.open()
        generation = ledger.generation
        for _ in range(3):
            # What a lost answer leaves behind: an open transaction and nobody who knows whether it was written.
            await ledger._writer._transaction.begin((LEDGER_TOPIC, PARTITION))
            ledger._writer._is_sound = False
            await ledger.write(link_document(link))
        assert ledger.generation == generation
        assert (await read_documents(client))[f"link/{link}"] == link_document(link)
        ledger.close()

    run(work, west)


def test_all_who_change_the_same_at_once_come_to_their_turn(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Each goes by what the others wrote before: no change is lost, and none is refused."""
    link, names = topic("link"), {f"t{n}" for n in range(4)}
    key = f"filters/{link}"

    async def work(client: Client) -> None:
        async def with_one_more(name: str) -> FiltersDocument:
            found = (await read_documents(client)).get(key, FiltersDocument(link=link, since_ms=0))
            assert isinstance(found, FiltersDocument)
            return replace(found, topics_exclude=tuple({*(found.topics_exclude or ()), name}))

        async def change(name: str) -> None:
            made = partial(with_one_more, name)
            await write_by_one(client, link, made, role="filters", replication_factor=None)

        await asyncio.gather(*map(change, names))
        found = (await read_documents(client))[key]
        assert isinstance(found, FiltersDocument)
        assert set(found.topics_exclude or ()) == names

    run(work, west)


def test_who_gives_way_is_fenced_once(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """It writes nothing and fences nobody again, and the other one's change is there."""
    link = topic("link")
    key = f"filters/{link}"

    async def work(client: Client) -> None:
        by_one = partial(write_by_one, client, link, role="filters", replication_factor=None)
        looks: list[int] = []

        async def others() -> FiltersDocument:
            return FiltersDocument(link=link, since_ms=2)

        async def ours() -> FiltersDocument:
            looks.append(1)
            await by_one(others)
            return FiltersDocument(link=link, since_ms=1)

        with pytest.raises(Fenced, match="others keep changing"):
            await by_one(ours, contention_s=0.0)
        assert looks == [1]
        assert (await read_documents(client))[key] == FiltersDocument(link=link, since_ms=2)

    run(work, west)


def test_the_tail_hears_at_once(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """A new record ends the long poll."""
    link = topic("link")

    async def work(client: Client) -> None:
        await ensure_topic(client)
        tail, writer = LedgerTail(client, poll_ms=10_000), LedgerWriter(client)
        await tail.read_to_end()
        await writer.append([link_document(link)])
        await tail.poll()
        delays = []
        for beat in range(20):
            polling = asyncio.create_task(tail.poll())
            await asyncio.sleep(0.05)
            document = ControllerDocument(link=link, generation=1, beat=beat, started_ms=0)
            begun = time.monotonic()
            offset = await writer.append([document])
            while not await has(polling, offset):
                polling = asyncio.create_task(tail.poll())
            delays.append(time.monotonic() - begun)
        # Five milliseconds on a machine with nothing else to do; a poll that is not ended lasts ten seconds.
        assert sorted(delays)[10] < 5.0, delays
        tail.close()
        writer.close()

    run(work, west)


async def has(polling: Awaitable[Poll], offset: int) -> bool:
    """Whether the record at an offset came; nothing came where the broker stood still."""
    try:
        return any(entry.offset == offset for entry in (await polling).entries)
    except Unreachable:
        return False


def test_a_deleted_ledger_is_written_again(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """The running controller creates the topic again and writes down what it knows; those who follow notice."""
    link = topic("link")

    async def work(client: Client) -> None:
        ledger = LinkLedger(client, link)
        await ledger.open()
        await ledger.write(link_document(link))
        tail = LedgerTail(client)
        await tail.read_to_end()
        running = asyncio.create_task(ledger.run())
        other_log = asyncio.create_task(until_written_again(tail, f"link/{link}"))
        await delete_ledger(client)
        await asyncio.wait_for(other_log, TERM_S)
        await eventually(lambda: ledger.problem is None)
        assert (await read_documents(client))[f"link/{link}"] == link_document(link)
        running.cancel()
        ledger.close()
        tail.close()

    run(work, west)


async def delete_ledger(client: Client) -> None:
    """Delete the topic under everybody's hands."""
    name = DeleteTopicsRequest.DeleteTopicState
    state = name(name=LEDGER_TOPIC, topic_id=NO_TOPIC_ID)
    await client.controller(DeleteTopicsRequest(topics=[state], topic_names=[LEDGER_TOPIC], timeout_ms=10_000))


async def until_written_again(tail: LedgerTail, key: str) -> None:
    """Follow until the log is another one and has the key in it."""
    seen = False
    while True:
        try:
            poll = await tail.poll()
        except ClusterError:
            await asyncio.sleep(0.05)
            continue
        seen = seen or poll.is_other_log
        if seen and any(entry.key == key for entry in poll.entries):
            return


def test_a_missing_ledger_is_created_by_whoever_needs_it(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """A controller that opens it finds it empty; a command that writes to it succeeds."""
    link = topic("link")

    async def work(client: Client) -> None:
        for needs in (opened, paused):
            await ensure_topic(client)
            await delete_ledger(client)
            while await is_there(client):
                await asyncio.sleep(0.05)
            await needs(client)
            assert {key.split("/")[1] for key in await read_documents(client)} == {link}

    async def opened(client: Client) -> None:
        ledger = LinkLedger(client, link)
        await ledger.open()
        ledger.close()

    async def paused(client: Client) -> None:
        await pause(Link(name=link, source=west.cluster(), target=west.cluster(), topics=TopicSettings()))

    run(work, west)


def test_a_view_reads_what_is_new(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Each look once; where the ledger went, or is another, nothing that was read before counts."""
    link = topic("link")

    async def work(client: Client) -> None:
        await ensure_topic(client)
        view, writer = LedgerView(client), LedgerWriter(client)
        try:
            await writer.append([link_document(link)])
            assert f"link/{link}" in {entry.key for entry in (await view.look()).entries}
            assert await view.look() == ([], False)
            await writer.append([PauseDocument(link=link, since_ms=1)])
            assert [entry.key for entry in (await view.look()).entries] == [f"pause/{link}"]
            await delete_ledger(client)
            # A broker tells no more of the topic before it ends its log.
            while not (news := await view.look()).is_other_log:
                assert not news.entries
                await asyncio.sleep(0.05)
            assert not news.entries
            await ensure_topic(client)
            await writer.append([link_document(link)])
            news = await view.look()
            assert ([entry.key for entry in news.entries], news.is_other_log) == ([f"link/{link}"], True)
        finally:
            view.close()
            writer.close()

    run(work, west)


def test_a_view_notices_a_shorter_ledger(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """A ledger that is another one, and shorter than what was read of the first, is read from its beginning."""
    link = topic("link")

    async def work(client: Client) -> None:
        view = LedgerView(client)
        async with Client(west.cluster()) as other:
            await ensure_topic(other)
            writer = LedgerWriter(other)
            await writer.append([PauseDocument(link=link, since_ms=each) for each in range(5)])
            assert f"pause/{link}" in {entry.key for entry in (await view.look()).entries}
            await delete_ledger(other)
            while await is_there(other):
                await asyncio.sleep(0.05)
            await ensure_topic(other)
            await writer.append([link_document(link)])
            writer.close()
        while True:
            with contextlib.suppress(Unreachable):
                news = await view.look()
                assert news.is_other_log or not news.entries
                if news.entries:
                    break
        assert [entry.key for entry in news.entries] == [f"link/{link}"]
        view.close()

    run(work, west)


def test_a_document_that_cannot_be_decoded_deletes_nothing(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Listeners hear of what was said before and of what comes after it, and of nothing in between."""
    link = topic("link")
    first, second = (PauseDocument(link=link, since_ms=since) for since in (1, 2))
    poison = Given(first.key.encode(), b"not json", [], SEPTEMBER)

    async def work(client: Client) -> None:
        ledger, writer = LinkLedger(client, link), LedgerWriter(client)
        await ledger.open()
        heard: list[Document | None] = []
        ledger.listen(lambda _, document: heard.append(document))
        running = asyncio.create_task(ledger.run())
        try:
            await writer.append([first])
            await asyncio.to_thread(produce, west, LEDGER_TOPIC, [poison])
            await writer.append([second])
            await eventually(lambda: second in heard)
            assert heard == [first, second]
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            ledger.close()
            writer.close()

    run(work, west)


async def is_there(client: Client) -> bool:
    """Whether the brokers know of a ledger."""
    try:
        await locate(client)
    except BrokerRefused:
        return False
    return True


def test_the_ledger_goes_on_without_its_leader(west3: LocalCluster, topic: Callable[[str], str]) -> None:
    """Killing the broker that leads the ledger interrupts neither reading nor writing for long."""
    link = topic("link")

    async def work(client: Client) -> None:
        ledger = LinkLedger(client, link)
        await ledger.open()
        heard: list[Document | None] = []
        ledger.listen(lambda key, document: heard.append(document))
        running = asyncio.create_task(ledger.run())
        writer = LedgerWriter(client)
        await writer.append([PauseDocument(link=link, since_ms=1)])
        await eventually(lambda: len(heard) == 1)
        broker = west3.broker(ledger.tail.node_id)
        broker.kill()
        try:
            await ledger.write(link_document(link))
            await writer.append([PauseDocument(link=link, since_ms=2)])
            await eventually(lambda: len(heard) >= 2)
        finally:
            broker.start()
        assert heard[-1] == PauseDocument(link=link, since_ms=2)
        assert not running.done()
        running.cancel()
        ledger.close()
        writer.close()

    run(work, west3)


def test_a_controller_knows_how_long_its_ledger_is_silent(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """While brokers hang, and answer none of its looks and beats; it is heard again when they go on."""

    async def work(client: Client) -> None:
        ledger = LinkLedger(client, topic("link"))
        await ledger.open()
        running = asyncio.create_task(ledger.run())
        await eventually(lambda: ledger.beat > 1)
        for broker in west.brokers:
            broker.pause()
        try:
            await eventually(lambda: ledger.silence_s(time.monotonic()) > 2 * BEAT_S)
        finally:
            for broker in west.brokers:
                broker.resume()
        await eventually(lambda: ledger.silence_s(time.monotonic()) < BEAT_S)
        running.cancel()
        ledger.close()

    run(work, west)


def test_a_leader_without_its_replicas_lets_no_distributor_write(
    west3: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Who is cut off from its peers says that nothing more is in the ledger, for as long as it is asked, and does not
    know what another leader took meanwhile. It takes nothing itself: that a task finds out.
    """
    word = SourceWord(topic("link"), 0, "c", lambda _: None)
    looks: list[float] = []

    async def work(client: Client) -> None:
        await ensure_topic(client)
        tail, writer = LedgerTail(client), LedgerWriter(client)
        await until_read(tail)
        work = [follow(tail, word, lambda: looks.append(word.write_until)), prove(writer, word, lambda: None)]
        following = [asyncio.create_task(each) for each in work]
        others = [west3.broker(node) for node in (1, 2, 3) if node != tail.node_id]
        await eventually(lambda: word.write_until > lasting_s())
        for broker in others:
            broker.pause()
        try:
            # What was on its way before still comes.
            await asyncio.sleep(1.0)
            looks.clear()
            await eventually(lambda: len(looks) > 10)
            assert {*looks} == {word.write_until}
        finally:
            for broker in others:
                broker.resume()
        await eventually(lambda: word.write_until > looks[0])
        for task in following:
            task.cancel()
        tail.close()
        writer.close()

    run(work, west3)


def test_nobody_begins_by_a_look_without_their_own_mark(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever changes something in view of what there is, and a controller that begins, write a mark first, and go by
    no look that does not show it.
    """
    link = topic("link")

    async def work(client: Client) -> None:
        await ensure_topic(client)
        ledger = LinkLedger(client, link)

        async def made() -> FiltersDocument:
            return FiltersDocument(link=link, since_ms=len((await read_ledger(client)).documents()))

        async with cut_off(client, monkeypatch):
            for attempt in (
                ledger.open,
                partial(write_by_one, client, link, made, role="filters", replication_factor=None),
            ):
                with pytest.raises(Unreachable, match="does not show a record that was just written there"):
                    await attempt()
        ledger.close()

    run(work, west)


def test_a_former_leader_makes_no_other_ledger(west3: LocalCluster, topic: Callable[[str], str]) -> None:
    """A leader that its peers have replaced, and that is cut off from them, has a shorter log than what was read of
    its successor: that is an outdated ledger, not another one.
    """
    link = topic("link")

    async def work(client: Client) -> None:
        await ensure_topic(client)
        writer, tail = LedgerWriter(client), LedgerTail(client)
        await writer.append([PauseDocument(link=link, since_ms=1)], term_s=TERM_S)
        await until_read(tail)
        former = west3.broker((await locate(client)).node_id)
        others = [west3.broker(node) for node in (1, 2, 3) if node != former.node_id]
        former.pause()
        try:
            await writer.append([PauseDocument(link=link, since_ms=2)], term_s=TERM_S)
            tail.renew()
            await until_read(tail)
            for broker in others:
                broker.pause()
            former.resume()
            try:
                tail.renew()
                with pytest.raises(Unreachable, match="does not show a record that was just written there"):
                    await tail.read_on()
            finally:
                for broker in others:
                    broker.resume()
        finally:
            former.resume()
            writer.close()
        assert not (await until_read(tail)).is_other_log
        tail.close()

    run(work, west3)


def test_nobody_begins_by_an_older_state(
    west3: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader of the ledger that its peers have replaced, and that is cut off from them, goes on showing what it knew.
    Whoever changes something in view of what there is, and a controller that begins, do not go by that.
    """
    link = topic("link")
    before, after = (FiltersDocument(link=link, since_ms=since, topics_include=()) for since in (1, 2))
    seen: list[dict[str, Document]] = []
    read_to_end = LedgerTail.read_to_end

    async def work(client: Client) -> None:
        await ensure_topic(client)
        writer = LedgerWriter(client)
        await writer.append([before])
        leader = (await locate(client)).node_id
        others = [west3.broker(node) for node in (1, 2, 3) if node != leader]

        async def shown_by_the_former_leader(tail: LedgerTail) -> list[Entry]:
            for broker in others:
                broker.pause()
            west3.broker(leader).resume()
            try:
                return await read_to_end(tail)
            finally:
                for broker in others:
                    broker.resume()
                west3.broker(leader).pause()

        async def made() -> FiltersDocument:
            tail = LedgerTail(client)
            try:
                seen.append(newest(await tail.read_to_end(), link))
            finally:
                tail.close()
            return after

        async def begin() -> None:
            ledger = LinkLedger(client, link)
            try:
                await ledger.open()
                seen.append(ledger.documents)
            finally:
                ledger.close()

        monkeypatch.setattr(LedgerTail, "read_to_end", shown_by_the_former_leader)
        west3.broker(leader).pause()
        try:
            await writer.append([after], term_s=TERM_S)
            for attempt in (begin, partial(write_by_one, client, link, made, role="filters", replication_factor=None)):
                with pytest.raises(Unreachable, match="does not show a record that was just written there"):
                    await attempt()
        finally:
            west3.broker(leader).resume()
            writer.close()
        assert seen == []

    run(work, west3)


def test_a_task_looks_for_the_leader_that_took_its_marks(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever it reads from may be cut off from its peers, and answers for ever. That another one took what it does not
    show is reason to look who leads the ledger now.
    """
    word = SourceWord(topic("link"), 0, "c", lambda _: None)
    located: list[LogPlace] = []

    async def noted(client: Client) -> LogPlace:
        located.append(await locate(client))
        return located[-1]

    async def work(client: Client) -> None:
        await ensure_topic(client)
        monkeypatch.setattr("isthmus.ledger.log.locate", noted)
        tail = LedgerTail(client)
        await tail.read_to_end()
        looks: list[int] = []
        following = asyncio.create_task(follow(tail, word, lambda: looks.append(tail.position)))
        await eventually(lambda: len(looks) > 3)
        assert len(located) == 1
        for ahead in (1000, 1001):
            word.note_mark(lasting_s(), tail.position + ahead)
        await eventually(lambda: len(located) > 2)
        following.cancel()
        tail.close()

    run(work, west)


def test_a_change_that_was_not_committed_does_not_count(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a command that was killed before its transaction ended: to who looks, and to a controller that runs. What is
    said after it does.
    """
    link = topic("link")
    key = f"filters/{link}"
    before, after = (FiltersDocument(link=link, since_ms=since, topics_include=()) for since in (1, 2))

    async def work(client: Client) -> None:
        ledger = LinkLedger(client, link)
        await ledger.open()
        heard: list[Document | None] = []
        ledger.listen(lambda at, document: heard.append(document) if at == key else None)
        following = asyncio.create_task(ledger.run())
        writer, successor = (FencedWriter(client, link, role="filters") for _ in range(2))
        try:
            await writer.take_over()
            await writer.append([before])
            memory = await read_ledger(client)
            with monkeypatch.context() as patch:
                patch.setattr(Transaction, "end", killed)
                # The controller's own writes are not its matter.
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                with pytest.raises(asyncio.CancelledError):
                    await writer.append([after])
            following = asyncio.create_task(ledger.run())
            assert (await read_ledger(client)).documents()[key] == before
            await successor.take_over()
            assert memory.documents()[key] == before == (await read_documents(client))[key]
            await successor.append([after])
            await eventually(lambda: ledger.documents.get(key) == after)
            assert heard == [before, after]
            assert (await read_ledger(client)).documents()[key] == after == (await read_documents(client))[key]
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            for each in (ledger, writer, successor):
                each.close()

    run(work, west)


def test_what_may_have_been_written_is_not_left_standing(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that does not know whether its writes were done says again what it goes by: who had nothing to say
    since is seen as it is.
    """
    link = topic("link")
    known, late, new = (LoopDocument(link=link, loop=loop, state="ACTIVE") for loop in ("configs", "access", "quotas"))
    lost = replace(known, state="IN_ERROR"), new

    async def work(client: Client) -> None:
        ledger = LinkLedger(client, link)
        await ledger.open()
        await ledger.write(known)
        append = FencedWriter.append

        async def unsure(*args: Any, **options: Any) -> None:
            await append(*args, **options)
            raise Unreachable("nobody knows", cluster="west")

        with monkeypatch.context() as patch:
            patch.setattr(FencedWriter, "append", unsure)
            with pytest.raises(Unreachable):
                await ledger.write(*lost)
        assert {known.key, new.key} <= (await read_documents(client, link)).keys()
        running = asyncio.create_task(ledger.run())
        try:
            await ledger.write(late)
            await until_committed(client, lambda found: (found.get(known.key), found.get(new.key)) == (known, None))
            assert (await read_documents(client, link))[late.key] == late == ledger.documents[late.key]
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            ledger.close()

    run(work, west)


def test_what_a_killed_controller_said_stays(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read before its transaction was aborted, and others went by it: the next one writes it again before
    brokers drop it. What was said later takes its place.
    """
    link = topic("link")
    said = link_document(link)
    later = TopicDocument(
        link=link,
        source_topic=SourceTopic("orders"),
        source_topic_id=uuid.uuid4(),
        target_topic=TargetTopic("orders"),
        target_topic_id=uuid.uuid4(),
        state="ACTIVE",
    )

    async def work(client: Client) -> None:
        former, successor, third = (LinkLedger(client, link) for _ in range(3))
        try:
            await former.open()
            with monkeypatch.context() as patch:
                patch.setattr(Transaction, "end", killed)
                with pytest.raises(asyncio.CancelledError):
                    await former.write(said, later)
            assert not {said.key, later.key} & (await committed(client)).keys()
            await successor.open()
            await until_committed(client, lambda found: (found.get(said.key), found.get(later.key)) == (said, later))
            await successor.write(replace(later, state="PAUSED"))
            await third.open()
            await until_committed(client, lambda found: found.get(later.key) == replace(later, state="PAUSED"))
        finally:
            for each in (former, successor, third):
                each.close()

    run(work, west)


@pytest.mark.parametrize("forgetting", [{"cleanup_policy": "delete"}, {"max_message_bytes": 100_000}])
def test_a_ledger_that_forgets_is_refused(
    west: LocalCluster, topic: Callable[[str], str], forgetting: dict[str, object]
) -> None:
    """When a link is to be run, whose controller goes on; while it runs it is told, until it is mended."""
    link = topic("link")

    async def work(client: Client) -> None:
        ledger = LinkLedger(client, link, keeping_s=0.1)
        await ledger.open()
        running = asyncio.create_task(ledger.run())
        kept = {"cleanup_policy": "compact", "max_message_bytes": 8 << 20}
        try:
            await asyncio.to_thread(configure, west, LEDGER_TOPIC, **forgetting)
            await eventually(lambda: isinstance(ledger.problem, PlanRefused))
            other = LinkLedger(client, link)
            with pytest.raises(PlanRefused, match=LEDGER_TOPIC) as refused:
                await other.open()
            other.close()
            assert "kafka-configs.sh" in refused.value.hint
        finally:
            await asyncio.to_thread(configure, west, LEDGER_TOPIC, **kept)
        await eventually(lambda: ledger.problem is None)
        await ledger.write(ledger._make_beat())
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        ledger.close()

    run(work, west)
