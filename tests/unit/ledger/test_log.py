"""Following the ledger: what was read, and whether that was all there was."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from contextlib import ExitStack
from typing import Any, cast

import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import scan
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED
from isthmus.ledger.log import LedgerTail, ToShow
from isthmus.ledger.records import Deletion, pack_changes
from testing.records.stored import PLAIN, marker, patched, stored
from testing.values.brokers import LEDGER_ID, Answering, asking, fetched, held_back, listed

KEYS = ("group/l/a", "group/l/b", "group/l/c")
WANTED_KEYS = ("filters/l", "declaration/l/@c", "lease/l/0")
PRODUCER = 7
EPOCH = 5
"""The epoch of the leader to which `records` were written."""


def records(base_offset: int) -> bytes:
    """One batch of three documents."""
    return patched(bytes(pack_changes(Deletion(key) for key in KEYS).view), base_offset)


def parts_of(client: Answering) -> list[Any]:
    """What was asked for in each fetch."""
    return [request.topics[0].partitions[0] for request in client.asked if hasattr(request, "session_epoch")]


def test_a_look_tells_whether_it_saw_everything() -> None:
    """Only what was read up to the high watermark is all there was when it was asked for."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client)
        first = await tail.poll()
        assert ([entry.offset for entry in first.entries], first.at_end, tail.position) == ([0, 1, 2], False, 3)
        second = await tail.poll()
        assert ([entry.offset for entry in second.entries], second.at_end, tail.position) == ([3, 4, 5], True, 6)
        third = await tail.poll()
        assert (third.entries, third.at_end, tail.position) == ([], True, 6)

    asking(
        [
            fetched(records(0), high_watermark=6),
            fetched(records(3), high_watermark=6),
            fetched(b"", high_watermark=6),
        ],
        follow,
    )


def test_an_answer_that_a_quota_holds_back_is_no_end() -> None:
    """It has no error and no records, whatever the ledger has (KIP-219): the next looks show it."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client)
        first = await tail.poll()
        assert (first.entries, first.at_end, tail.position) == ([], False, 0)
        assert [entry.key for entry in await tail.read_to_end()] == [*KEYS]
        with pytest.raises(Unreachable):
            await tail.poll()

    asking([held_back(1), listed(3), held_back(1), fetched(records(0), high_watermark=3), held_back(0)], follow)


def test_a_ledger_that_a_quota_holds_back_for_too_long_cannot_be_read() -> None:
    """Whoever waits for its end hears of the quota in time, and again after each pause, until something comes."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client, patience_s=0.02)
        with pytest.raises(Unreachable, match="quota") as told:
            await tail.read_on()
        assert "doctor" in (told.value.hint or "")
        assert tail.position == 0
        with pytest.raises(Unreachable, match="quota"):
            await tail.poll()
        assert [entry.key for entry in await tail.read_to_end()] == [*KEYS, *KEYS]

    asking(
        [
            listed(6),
            fetched(records(0), high_watermark=6),
            held_back(60_000),
            listed(6),
            held_back(1),
            listed(6),
            fetched(records(0), high_watermark=6),
            fetched(records(3), high_watermark=6),
        ],
        follow,
    )


def test_a_look_that_a_quota_slows_down_ends_and_is_not_lost() -> None:
    """Something comes each time, and the end is far: the look ends with the quota named. The next one goes on."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client, patience_s=0.5)
        with pytest.raises(Unreachable, match="quota"):
            await tail.read_on()
        assert [entry.key for entry in (await tail.read_on()).entries] == [*KEYS, *KEYS]
        assert (await tail.read_on()).entries == []

    asking(
        [
            listed(6),
            held_back(300),
            fetched(records(0), high_watermark=6),
            held_back(300),
            listed(6),
            fetched(records(3), high_watermark=6),
            listed(6),
        ],
        follow,
    )


def test_an_end_is_what_a_leader_knows_that_knows_all_that_was_replicated() -> None:
    """A new leader shows an earlier end at first (KIP-207). Whoever believed it would not know that it was revoked."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client)
        with pytest.raises(Unreachable):
            await tail.poll()
        assert [(await tail.poll()).at_end for _ in range(2)] == [False, True]
        assert {request.topics[0].partitions[0].current_leader_epoch for request in client.asked} == {0}

    unknown = listed(-1, error_code=codes.OFFSET_NOT_AVAILABLE)
    asking(
        [unknown, listed(6), fetched(records(0), high_watermark=3), fetched(records(3), high_watermark=6)],
        follow,
    )


def test_open_transactions_hide_nothing() -> None:
    """Nobody waits for a controller that stopped in the middle: what stands there is read, committed or not."""

    async def follow(client: Answering) -> None:
        await LedgerTail(client, position=7).poll()
        (request,) = client.asked
        assert request.isolation_level == READ_UNCOMMITTED == 0
        assert request.topics[0].partitions[0].fetch_offset == 7

    asking([fetched(b"", high_watermark=7)], follow)


def test_what_was_read_before_is_not_told_again() -> None:
    """A batch that begins before the position is read for its end."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client, position=2)
        assert [entry.offset for entry in (await tail.poll()).entries] == [2]
        assert tail.position == 3

    asking([fetched(records(0), high_watermark=3)], follow)


def test_another_ledger_is_read_from_its_beginning() -> None:
    """A topic that was created anew has another id; that what was read before is not in it is told once."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client, position=900, topic_id=uuid.UUID(int=99))
        first = await tail.poll()
        assert ([entry.offset for entry in first.entries], first.is_other_log) == ([0, 1, 2], True)
        assert tail.topic_id == LEDGER_ID
        assert not (await tail.poll()).is_other_log

    asking([fetched(records(0), high_watermark=3), fetched(b"", high_watermark=3)], follow)


def test_a_log_without_the_offset_begins_where_it_begins() -> None:
    """It was truncated, or deleted and created again: that look has seen nothing, and not everything."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client, position=900)
        assert not (await tail.poll()).at_end
        found = await tail.poll()
        assert ([entry.offset for entry in found.entries], found.is_other_log) == ([0, 1, 2], True)

    gone = fetched(b"", high_watermark=3, error_code=codes.OFFSET_OUT_OF_RANGE)
    asking([gone, listed(0), fetched(records(0), high_watermark=3)], follow)


def test_a_log_that_has_other_records_is_another_one() -> None:
    """It lost some in an unclean election, and got as many: only the epochs of its leaders show it (KIP-320)."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client)
        assert len((await tail.read_on()).entries) == 3
        found = await tail.read_on()
        assert ([entry.offset for entry in found.entries], found.is_other_log) == ([0, 1, 2, 3, 4, 5], True)
        epochs = [part.last_fetched_epoch for part in parts_of(client)]
        assert epochs == [-1, EPOCH, -1]

    asking(
        [
            listed(3),
            fetched(records(0), high_watermark=3),
            listed(6),
            fetched(b"", high_watermark=6, diverged_at=2),
            listed(0),
            listed(6),
            fetched(records(0) + records(3), high_watermark=6),
        ],
        follow,
    )


def test_everything_up_to_the_end_is_read() -> None:
    """As many looks as it takes, and no more: what comes after the end was asked for is not waited for."""

    async def follow(client: Answering) -> None:
        entries = await LedgerTail(client).read_to_end()
        assert [entry.key for entry in entries] == [*KEYS, *KEYS]

    asking([listed(6), fetched(records(0), high_watermark=9), fetched(records(3), high_watermark=9)], follow)


def test_what_is_written_while_a_look_is_under_way_it_need_not_show() -> None:
    """It asked for the end before that was there: nothing is wrong with who leads the ledger."""

    async def scenario() -> None:
        with ExitStack() as others:

            class Written(Answering):
                def _answer(self, request: Any) -> Any:
                    if isinstance(request, ListOffsetsRequest):
                        others.enter_context(self.companion(ToShow).at_least(9))
                    return super()._answer(request)

            async with Written([listed(3), fetched(records(0), high_watermark=3)]) as client:
                assert [entry.key for entry in await LedgerTail(client).read_to_end()] == [*KEYS]
                assert client.companion(ToShow).offset == 9

    asyncio.run(scenario())


def test_a_look_that_goes_on_with_another_leader_shows_what_it_has_to() -> None:
    """The one that told where the log ends may hang up, and the next one be cut off from its peers."""

    async def look(client: Answering) -> None:
        tail = LedgerTail(client)
        with (
            client.companion(ToShow).at_least(5),
            pytest.raises(Unreachable, match="does not show a record that was just written"),
        ):
            await tail.read_to_end()
        assert tail.position == 0

    class Leaving(Answering):
        async def dial(self, *_: Any, **__: Any) -> Connection:
            connection = cast(Any, await super().dial())
            call = connection.call

            async def called(request: Any, **_: Any) -> Any:
                answer = await call(request)
                connection.closed = not isinstance(request, ListOffsetsRequest)
                return answer

            connection.call = called
            return cast(Connection, connection)

    async def scenario() -> None:
        answers = [listed(6), fetched(records(0), high_watermark=6), listed(3), fetched(b"", high_watermark=3)]
        async with Leaving(answers) as client:
            await look(client)

    asyncio.run(scenario())


def test_that_a_broker_shows_another_ledger_is_forgotten_with_its_look() -> None:
    """A broker that was away for long knows the topic that was there before: what was read of this one is still so."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client, position=3, topic_id=LEDGER_ID)
        client.topic_id = uuid.UUID(int=99)
        with pytest.raises(Unreachable):
            await tail.read_on()
        client.topic_id = LEDGER_ID
        found = await tail.read_on()
        assert ([entry.offset for entry in found.entries], found.is_other_log) == ([3, 4, 5], False)

    unknown = listed(-1, error_code=codes.OFFSET_NOT_AVAILABLE)
    asking([unknown, listed(6), fetched(records(3), high_watermark=6)], follow)


def transacted(base_offset: int) -> bytes:
    """Three documents within a transaction, on the last of which a task acts."""
    record = [PLAIN._replace(key=key.encode(), value=b"x") for key in WANTED_KEYS]
    return stored(base_offset, record, producer_id=PRODUCER, transactional=True)


@pytest.mark.parametrize("commit", [True, False])
def test_what_operators_want_counts_from_its_commit_on(commit: bool) -> None:
    """And never if it was aborted, in one look or in several. Leases count as soon as they are written."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client, position=3)
        assert [entry.key for entry in (await tail.poll()).entries] == ["lease/l/0"]
        ended = [entry.offset for entry in (await tail.poll()).entries]
        assert ended == ([3, 4, 7] if commit else [7])
        at_once = [entry.offset for entry in (await tail.poll()).entries]
        assert at_once == ([10, 8, 9] if commit else [10])

    others = stored(7, [PLAIN._replace(key=b"pause/l", value=b"x")])
    asking(
        [
            fetched(transacted(3), high_watermark=6),
            fetched(marker(6, PRODUCER, commit=commit) + others, high_watermark=8),
            fetched(transacted(8) + marker(11, PRODUCER, commit=commit), high_watermark=12),
        ],
        follow,
    )


def test_what_counts_gives_no_way_to_what_was_written_before() -> None:
    """Of two that say the same at once the later record counts, whichever was committed first."""

    async def follow(client: Answering) -> None:
        assert [entry.offset for entry in (await LedgerTail(client).poll()).entries] == [2, 3, 1]

    later = stored(3, [PLAIN._replace(key=WANTED_KEYS[0].encode(), value=b"y")])
    asking([fetched(transacted(0) + later + marker(4, PRODUCER, commit=True), high_watermark=5)], follow)


def test_a_look_waits_for_what_is_being_committed() -> None:
    """A transaction ends on the log after its writer was told so; a look that fails forgets nothing that is open."""

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client)
        with pytest.raises(Unreachable):
            await tail.read_on()
        assert tail.position == 0
        news = await tail.read_on()
        assert ([entry.offset for entry in news.entries], news.is_other_log) == ([0, 1, 2, 5, 3, 4], False)
        assert await tail.read_on() == ([], False)

    asking(
        [
            listed(6),
            fetched(records(0) + transacted(3), high_watermark=6),
            Unreachable("gone", cluster="nowhere"),
            listed(6),
            fetched(records(0) + transacted(3), high_watermark=6),
            fetched(b"", high_watermark=6),
            fetched(marker(6, PRODUCER, commit=True), high_watermark=7),
            listed(7),
        ],
        follow,
    )


def test_a_look_goes_on_without_what_was_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has waited; the next look does not wait again."""
    clock = itertools.count(step=2.5)
    monkeypatch.setattr("isthmus.ledger.log.lasting_s", lambda: next(clock))

    async def follow(client: Answering) -> None:
        tail = LedgerTail(client)
        assert [entry.offset for entry in (await tail.read_on()).entries] == [2]
        assert await tail.read_on() == ([], False)

    asking([listed(3), fetched(transacted(0), high_watermark=3), listed(3)], follow)


def test_packed_documents_are_whole() -> None:
    """What is written is one batch that a broker takes."""
    (batch,) = scan(records(5))
    assert (batch.base_offset, batch.offset_end, batch.is_dense) == (5, 8, True)
