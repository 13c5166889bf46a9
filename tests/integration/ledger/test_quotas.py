"""Logs of brokers that hold back what they answer, because a client quota is used up (KIP-219)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

import pytest

from isthmus.errors import ClusterError, Occupied
from isthmus.kafka.client import Client
from isthmus.kafka.log.fetch import Want
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.log.tail import Read, batches_at
from isthmus.ledger.documents.kinds import LoopDocument
from isthmus.ledger.link import LinkLedger, read_documents
from isthmus.ledger.log import LedgerTail, LedgerWriter
from isthmus.ledger.pulse import SILENCE_S
from isthmus.ledger.topic import ensure_topic
from isthmus.local import LocalCluster
from isthmus.memory.links import now_ms, recollect
from isthmus.model.state import ControllerState
from isthmus.run.state.candidacy import WhenOccupied
from isthmus.run.succession import Succession
from isthmus.spark.leases.allowance import SourceWord, follow, prove
from testing.brokers.quotas import bounded
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import SEPTEMBER, Given

pytestmark = pytest.mark.integration

COUNT = 120
LOOKS = 2
BYTES_PER_S = 5_000.0
"""Brokers grant ten seconds of it at once: what is read here is more."""


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"consumer_byte_rate": BYTES_PER_S}, id="bytes"),
        pytest.param({"request_percentage": 0.02}, id="time"),
    ],
)
def test_a_ledger_is_read_whole_whatever_the_brokers_hold_back(
    west: LocalCluster, topic: Callable[[str], str], limits: dict[str, float]
) -> None:
    """An answer without anything in it is not the end of the ledger."""
    link, client_id = topic("link"), topic("client")
    wanted = [LoopDocument(link=link, loop=f"loop{n}", state="x" * 200) for n in range(COUNT)]

    async def scenario() -> None:
        async with Client(west.cluster()) as free:
            await ensure_topic(free)
            writer, before = LedgerWriter(free), LedgerTail(free)
            await before.read_to_end()
            for document in wanted:
                await writer.append([document])
            for each in (writer, before):
                each.close()
        with bounded(west, client_id, **limits):
            for _ in range(LOOKS):
                async with Client(west.cluster(), client_id=client_id) as client:
                    tail = LedgerTail(client, position=before.position)
                    told = [entry.key for entry in await tail.read_to_end()]
                    tail.close()
                    assert told == [document.key for document in wanted]

    asyncio.run(scenario())


def test_a_link_that_is_run_is_left_alone_by_who_is_held_back(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Whoever reads only a part of the ledger would not find its controller, or not hear it."""
    link, client_id = topic("link"), topic("client")
    filling = [LoopDocument(link=topic("other"), loop=f"loop{n}", state="x" * 200) for n in range(COUNT)]

    async def scenario() -> None:
        async with Client(west.cluster()) as free, Client(west.cluster(), client_id=client_id) as held:
            ledger, writer = LinkLedger(free, link), LedgerWriter(free)
            await ledger.open()
            running = asyncio.create_task(ledger.run())
            try:
                for document in filling:
                    await writer.append([document])
                with bounded(west, client_id, consumer_byte_rate=BYTES_PER_S):
                    for _ in range(LOOKS):
                        await read_documents(held)
                    with pytest.raises(Occupied):
                        await Succession(link, WhenOccupied.LEAVE, SILENCE_S).wait(held, lambda _: None)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                for each in (ledger, writer):
                    each.close()

    asyncio.run(scenario())


def test_a_controller_that_a_quota_mutes_says_so(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Its next beats come late: who stands by, its tasks and `status` know for how long, and call it THROTTLED."""
    link, client_id = topic("link"), topic("client")

    async def scenario() -> None:
        async with Client(west.cluster(), client_id=client_id) as client, Client(west.cluster()) as other:
            ledger = LinkLedger(client, link)
            await ledger.open()
            running = asyncio.create_task(ledger.run())
            # So much is held back for longer than a transaction may be open.
            large = LoopDocument(link=link, loop="configs", state=secrets.token_hex(20_000))
            try:
                with bounded(west, client_id, producer_byte_rate=500.0):
                    deadline = time.monotonic() + TERM_S
                    while (known := await recollect(link, other)).controller_state(now_ms()) is ControllerState.ALIVE:
                        assert time.monotonic() < deadline, "nothing is held back"
                        if ledger._writer.muted_until < time.monotonic():
                            # The quota takes effect a moment after it was set.
                            await ledger.write(large)
                        await asyncio.sleep(0.2)
                    assert known.controller_state(now_ms()) is ControllerState.THROTTLED
                    assert known.controller is not None
                    assert known.controller.held_s > SILENCE_S / 2
                    assert ledger.is_held
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                ledger.close()

    asyncio.run(scenario())


def test_a_task_writes_on_whose_marks_a_quota_mutes(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where as much is written to a tree's source as its quota lets pass, each mark that is taken mutes its connection
    for longer than the permission to write lasts that it gives.
    """
    link, client_id = topic("link"), topic("client")
    word, refused = SourceWord(link, 0, "c", lambda _: None), list[ClusterError]()
    monkeypatch.setattr(word, "note_refusal", refused.append)
    large = LoopDocument(link=link, loop="configs", state=secrets.token_hex(20_000))

    async def scenario() -> None:
        async with Client(west.cluster(), client_id=client_id) as client:
            await ensure_topic(client)
            tail, writer = LedgerTail(client), LedgerWriter(client)
            await tail.read_to_end()
            proven = asyncio.Event()
            work = [follow(tail, word, lambda: None), prove(writer, word, proven.set)]
            following = [asyncio.create_task(each) for each in work]
            try:
                with bounded(west, client_id, producer_byte_rate=500.0):
                    async with asyncio.timeout(TERM_S):
                        while writer._leader.muted_until < time.monotonic() + 2 * SILENCE_S:
                            other = LedgerWriter(client)
                            await other.append([large])
                            other.close()
                            await asyncio.sleep(0.2)
                        refused.clear()
                        for _ in range(2):
                            proven.clear()
                            await proven.wait()
                    assert refused == []
            finally:
                for task in following:
                    task.cancel()
                await asyncio.gather(*following, return_exceptions=True)
                for each in (tail, writer):
                    each.close()

    asyncio.run(scenario())


def test_what_a_log_holds_is_told_whatever_the_brokers_hold_back(
    west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Whoever looks at one offset, or reads a stretch, waits for an answer that has something in it."""
    name, client_id = topic("orders"), topic("client")
    keys = [(name, partition) for partition in range(2)]
    topics.create(west, name, partitions=len(keys))
    for _, partition in keys:
        topics.produce(west, name, [Given(None, bytes(10_000), [], SEPTEMBER)] * 2, partition=partition)

    async def scenario() -> None:
        with bounded(west, client_id, consumer_byte_rate=BYTES_PER_S):
            async with Client(west.cluster(), client_id=client_id) as client:
                described = (await client.metadata([name])).topics[name]
                connection = await client.connection(described.partitions[0].leader)
                wants = {key: Want(described.topic_id, 1, -1, -1) for key in keys}
                for _ in range(LOOKS):
                    found = await batches_at(connection, wants)
                    assert all(isinstance(each, Read) for each in found.values()), found
                reader = LogReader(client, stall_s=TERM_S)
                first = await reader.first_batch(OffsetRange(name, 0, 1, 2))
                assert first is not None
                assert first.offset_end == 2

    asyncio.run(scenario())
